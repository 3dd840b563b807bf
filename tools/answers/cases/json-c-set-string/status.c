/* Jobs with a status text, which is empty while nothing happens; every tick writes the whole table as JSON. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

enum { kJobs = 400, kTicks = 300 };

int main(void) {
  struct json_object* table = json_object_new_array();
  for (int job = 0; job < kJobs; ++job) {
    struct json_object* entry = json_object_new_object();
    json_object_object_add(entry, "id", json_object_new_int(job));
    json_object_object_add(entry, "status", json_object_new_string("new"));
    json_object_array_add(table, entry);
  }
  size_t written = 0;
  for (int tick = 0; tick < kTicks; ++tick) {
    for (int job = 0; job < kJobs; ++job) {
      struct json_object* entry = json_object_array_get_idx(table, job);
      struct json_object* status = json_object_object_get(entry, "status");
      char text[200];
      snprintf(text, sizeof text, "tick %d: copying block %d of %d from the source to the target", tick, job, kJobs);
      json_object_set_string(status, (tick + job) % 3 ? text : "");
    }
    written += strlen(json_object_to_json_string(table));
    /* A message to each subscriber. */
    for (int job = 0; job < kJobs; ++job) {
      struct json_object* message = json_tokener_parse("{\"kind\": \"tick\", \"values\": [1, 2, 3]}");
      written += strlen(json_object_to_json_string(message));
      json_object_put(message);
    }
  }
  printf("%zu\n", written);
  json_object_put(table);
  return 0;
}

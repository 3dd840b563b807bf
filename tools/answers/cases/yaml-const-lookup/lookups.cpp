// A service that asks its configuration for the options of a tenant with every request. Few tenants set any.
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <yaml-cpp/yaml.h>

namespace {

int timeout_of(const YAML::Node& tenant) {
  const YAML::Node timeout = tenant["timeout"];
  return timeout ? timeout.as<int>() : 30;
}

bool may_upload(const YAML::Node& tenant) {
  const YAML::Node permission = tenant["upload"];
  return permission && permission.as<bool>();
}

}  // namespace

int main(int, char** arguments) {
  const YAML::Node config = YAML::LoadFile(arguments[1]);
  const YAML::Node tenants = config["tenants"];
  std::map<int, std::string> sessions;  // a cache with a limit
  long sum = 0;
  for (int request = 0; request < 60000; ++request) {
    const YAML::Node tenant = tenants[request % tenants.size()];
    sum += timeout_of(tenant) + may_upload(tenant);
    sessions[request] = tenant["name"].as<std::string>() + std::string(100, 's');
    if (sessions.size() > 1000) sessions.erase(sessions.begin());
  }
  std::cout << sum << '\n';
}

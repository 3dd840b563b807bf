/* Validates a document again and again with one context, as a service with one schema. */
#include <libxml/parser.h>
#include <libxml/xmlschemas.h>
#include <stdio.h>

enum { kDocuments = 150 };

int main(int count, char** arguments) {
  if (count != 3) return 2;
  xmlSchemaParserCtxtPtr parser = xmlSchemaNewParserCtxt(arguments[1]);
  xmlSchemaPtr schema = xmlSchemaParse(parser);
  xmlSchemaFreeParserCtxt(parser);
  xmlSchemaValidCtxtPtr validator = xmlSchemaNewValidCtxt(schema);
  int invalid = 0;
  for (int document = 0; document < kDocuments; ++document) {
    xmlDocPtr tree = xmlReadFile(arguments[2], NULL, 0);
    invalid += xmlSchemaValidateDoc(validator, tree) != 0;
    xmlFreeDoc(tree);
  }
  xmlSchemaFreeValidCtxt(validator);
  xmlSchemaFree(schema);
  xmlCleanupParser();
  printf("%d invalid\n", invalid);
  return invalid != 0;
}

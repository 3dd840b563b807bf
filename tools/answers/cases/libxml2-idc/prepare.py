"""A schema with a key, and a document with 600 of them."""
import pathlib

pathlib.Path("orders.xsd").write_text("""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
 <xs:element name="orders">
  <xs:complexType><xs:sequence>
   <xs:element name="order" maxOccurs="unbounded">
    <xs:complexType>
     <xs:sequence><xs:element name="item" type="xs:string" maxOccurs="unbounded"/></xs:sequence>
     <xs:attribute name="number" type="xs:string" use="required"/>
    </xs:complexType>
   </xs:element>
  </xs:sequence></xs:complexType>
  <xs:key name="orderNumber"><xs:selector xpath="order"/><xs:field xpath="@number"/></xs:key>
 </xs:element>
</xs:schema>
""")
orders = "".join(f' <order number="2024-{number:05}"><item>pencil</item><item>paper</item></order>\n'
                 for number in range(600))
pathlib.Path("orders.xml").write_text(f"<orders>\n{orders}</orders>\n")

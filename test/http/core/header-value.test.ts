import t from 'tap'
import { parseHeaderValue } from '../../../lib/http/core/header-value.js'

const cases: Array<[text: string, value: string | undefined, parameters?: Record<string, string>]> = [
  ['form-data', 'form-data', {}],
  ['Form-Data ; Name=a', 'form-data', { name: 'a' }],
  ['form-data; name="a;b=c"; x=1', 'form-data', { name: 'a;b=c', x: '1' }],
  ['form-data; name="a\\"b\\\\c\\d"', 'form-data', { name: 'a"b\\c\\d' }],
  ['form-data; name=a; name=b', 'form-data', { name: 'a' }],
  ['form-data; name=""', 'form-data', { name: '' }],
  ['form-data;; name=a;', 'form-data', { name: 'a' }],
  ["form-data; f*=UTF-8''a%20%e2%82%ac", 'form-data', { 'f*': 'a €' }],
  ["form-data; f*=utf-8'de'x", 'form-data', { 'f*': 'x' }],
  ["form-data; f*=ISO-8859-1''%A3", 'form-data', { 'f*': '£' }],
  ["form-data; f*=UTF-8''%zz; g=1", 'form-data', { g: '1' }],
  ['form-data; f*=plain', 'form-data', {}],
  ['form-data; name="open', undefined],
  ['form-data; =a', undefined],
  ['form-data; name="a"b', undefined]
]

for (const [text, value, parameters] of cases) {
  t.test(text, async t => {
    const parsed = parseHeaderValue(text)
    t.equal(parsed?.value, value)
    if (parameters !== undefined) t.same(Object.fromEntries(parsed?.parameters ?? []), parameters)
  })
}

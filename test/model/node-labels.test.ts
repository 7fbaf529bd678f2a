import t from 'tap'
import { nodeLabels, parseLabel } from '../../lib/model/node-labels.js'

t.test('a label is a name and a text, of which only the name has a form', async t => {
  const cases: Array<[string, { key: string; value: string } | null]> = [
    ['zone=eu', { key: 'zone', value: 'eu' }],
    ['zone=', { key: 'zone', value: '' }],
    ['zone=a=b', { key: 'zone', value: 'a=b' }],
    ['topology/zone.a=1', { key: 'topology/zone.a', value: '1' }],
    ['zone', null],
    ['=eu', null],
    ['a zone=eu', null],
    ['__proto__=eu', null],
    [`zone=${'x'.repeat(101)}`, null]
  ]
  for (const [text, expected] of cases) t.same(parseLabel(text), expected, text)
})

t.test('labels are refused by their name', async t => {
  t.same(nodeLabels({ zone: 'eu' }, 'labels'), { zone: 'eu' })
  t.throws(() => nodeLabels({ 'a b': '1' }, 'labels'), { code: 'invalid_field', field: 'labels.a b' })
  t.throws(() => nodeLabels({ zone: 1 }, 'labels'), { code: 'invalid_field', field: 'labels.zone' })
  t.throws(() => nodeLabels({ zone: 'a\nb' }, 'labels'), { code: 'invalid_field', field: 'labels.zone' })
  const many = Object.fromEntries(Array.from({ length: 33 }, (_, at) => [`l${at}`, '']))
  t.throws(() => nodeLabels(many, 'labels'), { code: 'invalid_field', field: 'labels' })
})

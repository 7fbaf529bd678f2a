import t from 'tap'
import { areNestedThere, nodeLabels, nodeName, parseLabel } from '../../lib/model/node.js'

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

t.test('directories of a node are compared as it names them', async t => {
  for (const [one, other] of [
    ['/srv', '/srv'],
    ['/srv', '/srv/a'],
    ['/srv/', '/srv/a'],
    ['/', '/srv']
  ] as const)
    t.strictSame([areNestedThere(one, other), areNestedThere(other, one)], [true, true], `${one}, ${other}`)
  for (const other of ['/srv-2', '/SRV', '/SRV/a', '/srv/bc']) t.notOk(areNestedThere('/srv/b', other), other)
})

t.test('labels are refused by their name', async t => {
  t.same(nodeLabels({ zone: 'eu' }, 'labels'), { zone: 'eu' })
  t.throws(() => nodeLabels({ 'a b': '1' }, 'labels'), { code: 'invalid_field', field: 'labels.a b' })
  t.throws(() => nodeLabels({ zone: 1 }, 'labels'), { code: 'invalid_field', field: 'labels.zone' })
  t.throws(() => nodeLabels({ zone: 'a\nb' }, 'labels'), { code: 'invalid_field', field: 'labels.zone' })
  const many = Object.fromEntries(Array.from({ length: 33 }, (_, at) => [`l${at}`, '']))
  t.throws(() => nodeLabels(many, 'labels'), { code: 'invalid_field', field: 'labels' })
})

t.test('the name of a node is one word that does not look like an id', async t => {
  for (const name of ['web-1', 'web1.eu.example.org', '1', 'A_b']) t.equal(nodeName(name, 'name'), name)
  t.equal(nodeName(' web-1 ', 'name'), 'web-1')
  for (const name of ['', ' ', 'web 1', '-web', 'web/1', 'wéb', 'node_1a2b', 'Node_x', 'x'.repeat(101), null])
    t.throws(() => nodeName(name, 'name'), { code: 'invalid_field', field: 'name' }, String(name))
})

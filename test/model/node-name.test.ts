import t from 'tap'
import { nodeName } from '../../lib/model/node-name.js'

t.test('the name of a node is one word that does not look like an id', async t => {
  for (const name of ['web-1', 'web1.eu.example.org', '1', 'A_b']) t.equal(nodeName(name, 'name'), name)
  t.equal(nodeName(' web-1 ', 'name'), 'web-1')
  for (const name of ['', ' ', 'web 1', '-web', 'web/1', 'wéb', 'node_1a2b', 'Node_x', 'x'.repeat(101), null])
    t.throws(() => nodeName(name, 'name'), { code: 'invalid_field', field: 'name' }, String(name))
})

import t from 'tap'
import {
  entryLine,
  entryStart,
  entryText,
  hashLength,
  leafStart,
  otherLine,
  type SealedEntry
} from '../../lib/audit/entry-text.js'
import { hashLeaf } from '../../lib/audit/tree.js'

const entry: SealedEntry = {
  failures: null,
  ok: true,
  detail: 'Grüße "x"\n',
  target: 'proj_a',
  projectId: null,
  claimedIp: null,
  ip: '192.0.2.1',
  sessionId: null,
  role: 'admin',
  tokenName: null,
  tokenId: null,
  actor: 'admin',
  action: 'project.create',
  at: '2030-01-01T00:00:00.000Z',
  id: 'aud_a',
  seq: 7
}

t.test('has the fields in a fixed order, without those that are null', async t => {
  t.equal(
    entryText(entry),
    '{"seq":7,"id":"aud_a","at":"2030-01-01T00:00:00.000Z","action":"project.create","actor":"admin",' +
      '"role":"admin","ip":"192.0.2.1","target":"proj_a","detail":"Grüße \\"x\\"\\n","ok":true}'
  )
})

t.test('contains every field that is not null', async t => {
  const filled = Object.fromEntries(Object.entries(entry).map(([field, value]) => [field, value ?? 'x']))
  t.same(JSON.parse(entryText(filled as unknown as SealedEntry)), filled)
})

t.test('lines are JSON, with the text of the entry unchanged', async t => {
  const [leaf, text] = [hashLeaf('x').toString('base64'), '{"seq":1,"id":"aud_a"}']
  t.equal(leaf.length, hashLength)
  const line = entryLine(leaf, text)
  t.equal(line, `${leafStart}${leaf}${entryStart}${text}}\n`)
  t.same(JSON.parse(line), { leaf, entry: { seq: 1, id: 'aud_a' } })
  t.same(JSON.parse(otherLine({ leaf, removed: 2 })), { leaf, removed: 2 })
})

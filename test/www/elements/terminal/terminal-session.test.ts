import '../../../support/without-dom.js'
import t from 'tap'
import { createKeptTerminals } from '../../../../www/elements/terminal/terminal-session.js'

function stage() {
  const entries = new Map<string, string>()
  const tab = {
    getItem: (key: string) => entries.get(key) ?? null,
    setItem: (key: string, value: string) => void entries.set(key, value),
    removeItem: (key: string) => void entries.delete(key)
  }
  return { entries, keptAt: (base: string) => createKeptTerminals({ base, tab }) }
}

const session = { sessionId: 'term_1', projectId: null, receivedBytes: 120, columns: 80, rows: 24 }

t.test('returns sessions once, to the panel with the same base', async t => {
  const { keptAt, entries } = stage()
  keptAt('http://host/a/').put([session])
  t.same(keptAt('http://host/b/').take(), [])
  t.same(keptAt('http://host/a/').take(), [session])
  t.same(keptAt('http://host/a/').take(), [])
  keptAt('http://host/a/').put([])
  t.equal(entries.size, 0, 'none leave nothing')
})

t.test('ignores invalid entries', async t => {
  const { keptAt, entries } = stage()
  const kept = keptAt('/')
  for (const text of [
    'nonsense',
    '[null]',
    '[{"sessionId":1}]',
    '[{"sessionId":"a","projectId":null,"receivedBytes":"x"}]'
  ]) {
    entries.set('svc.terminals /', text)
    t.same(kept.take(), [], text)
  }
})

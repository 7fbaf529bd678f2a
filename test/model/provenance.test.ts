import t from 'tap'
import {
  isCommitId,
  readProvenance,
  shortCommit,
  webAddress,
  type ProvenanceReading
} from '../../lib/model/provenance.js'

const wrong = (field: string, reason: string): Error => new Error(`${field}: ${reason}`)
const refuse: ProvenanceReading = { unprintable: 'refuse', wrong }
const escape: ProvenanceReading = { unprintable: 'escape', wrong }
const nothing = {
  source: 'cli',
  commit: null,
  branch: null,
  tag: null,
  author: null,
  subject: null,
  dirty: null,
  repository: null,
  ci: null,
  by: null
}
const commit = 'A'.repeat(40)

t.test('reads a claim with missing keys as null and ignores unknown keys', async t => {
  t.equal(readProvenance(null, refuse), null)
  t.equal(readProvenance(undefined, refuse), null)
  t.strictSame(readProvenance({}, refuse), nothing)
  t.strictSame(readProvenance({ branch: '', ci: null, token: 'x', __proto__: { tag: 'inherited' } }, refuse), nothing)
  const full = {
    source: 'panel',
    commit,
    branch: 'main',
    tag: 'v1',
    author: 'Ada',
    subject: 'Préis',
    dirty: true,
    by: 'admin',
    repository: 'https://u:p@git.test/a/b',
    ci: { system: 'Drone', run: '42', url: 'https://u:p@ci.test/42?x=1', actor: 'ada', more: 1 }
  }
  t.strictSame(readProvenance(full, refuse), {
    ...full,
    commit: 'a'.repeat(40),
    repository: 'https://git.test/a/b',
    ci: { system: 'Drone', run: '42', url: 'https://ci.test/42?x=1', actor: 'ada' }
  })
  t.match(
    readProvenance({ repository: '/home/ada' }, refuse),
    { repository: null },
    'a path of another machine is dropped'
  )
})

t.test('names the field of a wrong value', async t => {
  const cases: Array<[given: unknown, error: RegExp]> = [
    ['text', /^: must be an object$/],
    [[], /^: must be an object$/],
    [1, /^: must be an object$/],
    [{ source: 'api' }, /^source: must be "cli" or "panel"$/],
    [{ commit: 'abc' }, /^commit: must be 40 or 64/],
    [{ commit: 'g'.repeat(40) }, /^commit: /],
    [{ commit: 1 }, /^commit: must be a string or null$/],
    [{ branch: {} }, /^branch: must be a string/],
    [{ branch: 'x'.repeat(301) }, /^branch: is too long: 301 characters, at most 300$/],
    [{ subject: 'a\nb' }, /^subject: must be one line of visible characters: it contains U\+000A$/],
    [{ author: 'a\u202eb' }, /^author: .*U\+202E/],
    [{ dirty: 'yes' }, /^dirty: must be true, false or null$/],
    [{ repository: 5 }, /^repository: /],
    [{ repository: 'https://a/\u001b[2J' }, /^repository: .*U\+001B/],
    [{ ci: 'Drone' }, /^ci: must be an object$/],
    [{ ci: {} }, /^ci\.system: is missing/],
    [{ ci: { system: 'x', run: 42 } }, /^ci\.run: must be a string/],
    [{ ci: { system: 'x', url: 'javascript:alert(1)' } }, /^ci\.url: must be an address with http/],
    [{ ci: { system: 'x', url: 'data:text/html,x' } }, /^ci\.url: /],
    [{ ci: { system: 'x', url: '//ci.test' } }, /^ci\.url: /],
    [{ ci: { system: 'x', actor: '\u0000' } }, /^ci\.actor: /],
    [{ by: true }, /^by: /]
  ]
  for (const [given, message] of cases)
    t.throws(() => readProvenance(given, refuse), { message }, JSON.stringify(given))
})

t.test('escapes a name in a package that would forge a line', async t => {
  t.match(readProvenance({ subject: 'a\nb\u202e', ci: { system: 'x\u001b' } }, escape), {
    subject: 'a\\nb\\u202e',
    ci: { system: 'x\\u001b' }
  })
  t.throws(() => readProvenance({ ci: { system: 'x', url: 'javascript:1' } }, escape), /ci\.url/)
})

t.test('recognises commit ids and web addresses', async t => {
  t.equal(isCommitId('a'.repeat(64)), true)
  for (const text of ['a'.repeat(41), 'A'.repeat(40), '', `${'a'.repeat(40)}\n`]) t.equal(isCommitId(text), false)
  t.equal(shortCommit('0123456789'), '0123456')
  t.equal(webAddress('https://user:pass@ci.test/x'), 'https://ci.test/x')
  t.equal(webAddress('ftp://ci.test'), null)
  t.equal(webAddress('x'), null)
})

import t from 'tap'
import { isCommitId, provenanceReader, shortCommit, webAddress } from '../../lib/model/provenance.js'

const refuse = provenanceReader('refuse')
const escape = provenanceReader('escape')
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
  t.equal(refuse(null, 'x'), null)
  t.equal(refuse(undefined, 'x'), null)
  t.strictSame(refuse({}, 'x'), nothing)
  t.strictSame(refuse({ branch: '', ci: null, token: 'x', __proto__: { tag: 'inherited' } }, 'x'), nothing)
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
  t.strictSame(refuse(full, 'x'), {
    ...full,
    commit: 'a'.repeat(40),
    repository: 'https://git.test/a/b',
    ci: { system: 'Drone', run: '42', url: 'https://ci.test/42?x=1', actor: 'ada' }
  })
  t.match(refuse({ repository: '/home/ada' }, 'x'), { repository: null }, 'a path of another machine is dropped')
})

t.test('names the field of a wrong value', async t => {
  const cases: Array<[given: unknown, field: string, message: RegExp]> = [
    ['text', 'x', /expected an object$/],
    [[], 'x', /expected an object$/],
    [1, 'x', /expected an object$/],
    [{ source: 'api' }, 'x.source', /expected one of cli, panel$/],
    [{ commit: 'abc' }, 'x.commit', /expected 40 or 64/],
    [{ commit: 'g'.repeat(40) }, 'x.commit', /expected 40 or 64/],
    [{ commit: 1 }, 'x.commit', /expected a string$/],
    [{ branch: {} }, 'x.branch', /expected a string$/],
    [{ branch: 'x'.repeat(301) }, 'x.branch', /too long: 301 characters, at most 300$/],
    [{ subject: 'a\nb' }, 'x.subject', /must be one line of visible characters: it contains U\+000A$/],
    [{ author: 'a\u202eb' }, 'x.author', /U\+202E/],
    [{ dirty: 'yes' }, 'x.dirty', /expected true or false$/],
    [{ repository: 5 }, 'x.repository', /expected a string$/],
    [{ repository: 'https://a/\u001b[2J' }, 'x.repository', /U\+001B/],
    [{ ci: 'Drone' }, 'x.ci', /expected an object$/],
    [{ ci: {} }, 'x.ci.system', /is missing/],
    [{ ci: { system: '' } }, 'x.ci.system', /is empty/],
    [{ ci: { system: 'x', run: 42 } }, 'x.ci.run', /expected a string$/],
    [{ ci: { system: 'x', url: 'javascript:alert(1)' } }, 'x.ci.url', /expected an address with http/],
    [{ ci: { system: 'x', url: 'data:text/html,x' } }, 'x.ci.url', /expected an address with http/],
    [{ ci: { system: 'x', url: '//ci.test' } }, 'x.ci.url', /expected an address with http/],
    [{ ci: { system: 'x', actor: '\u0000' } }, 'x.ci.actor', /NUL/],
    [{ by: true }, 'x.by', /expected a string$/]
  ]
  for (const [given, field, message] of cases)
    t.throws(() => refuse(given, 'x'), { code: 'invalid_field', field, message }, JSON.stringify(given))
})

t.test('escapes a name in a package that would forge a line', async t => {
  t.match(escape({ subject: 'a\nb\u202e', ci: { system: 'x\u001b' } }, 'x'), {
    subject: 'a\\nb\\u202e',
    ci: { system: 'x\\u001b' }
  })
  t.throws(() => escape({ ci: { system: 'x', url: 'javascript:1' } }, 'x'), /ci\.url/)
})

t.test('recognises commit ids and web addresses', async t => {
  t.equal(isCommitId('a'.repeat(64)), true)
  for (const text of ['a'.repeat(41), 'A'.repeat(40), '', `${'a'.repeat(40)}\n`]) t.equal(isCommitId(text), false)
  t.equal(shortCommit('0123456789'), '0123456')
  t.equal(webAddress('https://user:pass@ci.test/x'), 'https://ci.test/x')
  t.equal(webAddress('ftp://ci.test'), null)
  t.equal(webAddress('x'), null)
})

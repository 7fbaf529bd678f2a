import t from 'tap'
import {
  commitUrl,
  isCommitId,
  provenanceReader,
  repositoryPlace,
  shortCommit,
  webAddress,
  withoutCredentials
} from '../../lib/model/provenance.js'

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

const hash = '0123456789abcdef0123456789abcdef01234567'
const read = provenanceReader('refuse')
const claim = (fields: object) => read(fields, 'provenance')

t.test('returns the page of a commit', async t => {
  const pattern = 'https://git.example.org/{repository}/commit/{commit}?at={commit}'
  const cases: Array<[what: string, repository: string | null, pattern: string, address: string | null]> = [
    ['GitHub', 'git@github.com:team/shop.git', '', `https://github.com/team/shop/commit/${hash}`],
    [
      'GitHub by https, with a token',
      'https://x:y@github.com/team/shop',
      '',
      `https://github.com/team/shop/commit/${hash}`
    ],
    ['GitLab', 'https://gitlab.com/a/b/c.git', '', `https://gitlab.com/a/b/c/-/commit/${hash}`],
    ['Bitbucket', 'https://bitbucket.org/a/b', '', `https://bitbucket.org/a/b/commits/${hash}`],
    ['Codeberg', 'https://codeberg.org/a/b', '', `https://codeberg.org/a/b/commit/${hash}`],
    ['another host', 'https://git.test/a/b', '', null],
    ['a host with a known ending', 'https://notgithub.com/a/b', '', null],
    ['a host with a known beginning', 'https://github.com.evil.test/a/b', '', null],
    ['a property name of every object', 'https://constructor/a/b', '', null],
    ['no repository', null, '', null],
    ['a pattern', 'ssh://git@git.test:2222/a/b.git', pattern, `https://git.example.org/a/b/commit/${hash}?at=${hash}`],
    ['a pattern wins', 'https://github.com/a/b', pattern, `https://git.example.org/a/b/commit/${hash}?at=${hash}`],
    ['a pattern without a repository', null, pattern, null],
    ['a pattern without the placeholder', null, 'https://git.test/c/{commit}', `https://git.test/c/${hash}`],
    [
      'characters that would change the path',
      'git.test:a"b/$&/<c>',
      pattern,
      `https://git.example.org/a%22b/%24%26/%3Cc%3E/commit/${hash}?at=${hash}`
    ],
    ['a path that leaves its directory', 'git.test:../../x', pattern, null],
    [
      'a path that contains a placeholder',
      'git.test:{commit}',
      pattern,
      `https://git.example.org/%7Bcommit%7D/commit/${hash}?at=${hash}`
    ]
  ]
  for (const [what, repository, given, address] of cases)
    t.equal(commitUrl(claim({ commit: hash, repository }), given), address, what)
  t.equal(commitUrl(null, pattern), null)
  t.equal(commitUrl(claim({ repository: 'https://github.com/a/b' }), ''), null, 'no commit')
})

t.test('removes credentials from addresses of repositories', async t => {
  const cases: Array<[given: string, shown: string | null]> = [
    ['https://github.com/team/shop.git', 'https://github.com/team/shop.git'],
    ['https://gitlab-ci-token:glcbt-hunter2@gitlab.test/team/shop.git', 'https://gitlab.test/team/shop.git'],
    ['https://hunter2@github.com/team/shop', 'https://github.com/team/shop'],
    ['https://x:hunter2@git.test:8443/team/shop/', 'https://git.test:8443/team/shop'],
    ['https://git.test/team/shop?access_token=hunter2#hunter2', 'https://git.test/team/shop'],
    ['https://a:hunter2@b@git.test/shop', 'https://git.test/shop'],
    ['HTTPS://USER:hunter2@git.test/shop', 'https://git.test/shop'],
    ['ssh://git:hunter2@git.test:2222/team/shop.git', 'ssh://git.test:2222/team/shop.git'],
    ['git+ssh://hunter2@git.test/shop', 'git+ssh://git.test/shop'],
    ['git://git.test/shop', 'git://git.test/shop'],
    ['git@github.com:team/shop.git', 'github.com:team/shop.git'],
    ['hunter2@git.test:team/shop', 'git.test:team/shop'],
    ['user:hunter2@git.test:team/shop', 'git.test:team/shop'],
    ['a@b:hunter2@git.test:team/shop', 'git.test:team/shop'],
    ['git@[::1]:shop.git', '[::1]:shop.git'],
    ['  git@git.test:shop  ', 'git.test:shop'],
    ['git@git.test:shop?token=hunter2', 'git.test:shop'],
    ['', null],
    ['/srv/git/shop.git', null],
    ['../shop', null],
    ['file:///home/ada/hunter2/shop', null],
    ['C:\\Users\\ada\\shop', null],
    ['C:/Users/ada/shop', null],
    ['ext::sh -c hunter2', null],
    ['https:/user:hunter2@git.test/shop', null],
    ['https://', null],
    ['https://[bad', null]
  ]
  for (const [given, shown] of cases) {
    const found = withoutCredentials(given)
    t.equal(found, shown, given)
    t.notMatch(found ?? '', /hunter2/, given)
    if (found !== null) t.equal(withoutCredentials(found), found, `${given}: nothing more to remove`)
  }
})

t.test('returns host and path of a repository', async t => {
  const cases: Array<[string, { host: string; path: string } | null]> = [
    ['https://GitHub.com/team/shop.git', { host: 'github.com', path: 'team/shop' }],
    ['ssh://git.test:2222/team/sub/shop.git', { host: 'git.test:2222', path: 'team/sub/shop' }],
    ['git.test:team/shop.git', { host: 'git.test', path: 'team/shop' }],
    ['git.test:/srv/shop', { host: 'git.test', path: 'srv/shop' }],
    ['https://git.test', null],
    ['https://git.test/', null],
    ['git.test:../../etc', null],
    ['git.test:a//b', null],
    ['git.test:.git', null],
    ['nothing', null]
  ]
  for (const [given, place] of cases) t.strictSame(repositoryPlace(given), place, given)
})

import t from 'tap'
import { commitUrl } from '../../lib/model/commit-link.js'
import { provenanceReader } from '../../lib/model/provenance.js'

const commit = '0123456789abcdef0123456789abcdef01234567'
const read = provenanceReader('refuse')
const claim = (fields: object) => read(fields, 'provenance')

t.test('returns the page of a commit', async t => {
  const pattern = 'https://git.example.org/{repository}/commit/{commit}?at={commit}'
  const cases: Array<[what: string, repository: string | null, pattern: string, address: string | null]> = [
    ['GitHub', 'git@github.com:team/shop.git', '', `https://github.com/team/shop/commit/${commit}`],
    [
      'GitHub by https, with a token',
      'https://x:y@github.com/team/shop',
      '',
      `https://github.com/team/shop/commit/${commit}`
    ],
    ['GitLab', 'https://gitlab.com/a/b/c.git', '', `https://gitlab.com/a/b/c/-/commit/${commit}`],
    ['Bitbucket', 'https://bitbucket.org/a/b', '', `https://bitbucket.org/a/b/commits/${commit}`],
    ['Codeberg', 'https://codeberg.org/a/b', '', `https://codeberg.org/a/b/commit/${commit}`],
    ['another host', 'https://git.test/a/b', '', null],
    ['a host with a known ending', 'https://notgithub.com/a/b', '', null],
    ['a host with a known beginning', 'https://github.com.evil.test/a/b', '', null],
    ['a property name of every object', 'https://constructor/a/b', '', null],
    ['no repository', null, '', null],
    [
      'a pattern',
      'ssh://git@git.test:2222/a/b.git',
      pattern,
      `https://git.example.org/a/b/commit/${commit}?at=${commit}`
    ],
    ['a pattern wins', 'https://github.com/a/b', pattern, `https://git.example.org/a/b/commit/${commit}?at=${commit}`],
    ['a pattern without a repository', null, pattern, null],
    ['a pattern without the placeholder', null, 'https://git.test/c/{commit}', `https://git.test/c/${commit}`],
    [
      'characters that would change the path',
      'git.test:a"b/$&/<c>',
      pattern,
      `https://git.example.org/a%22b/%24%26/%3Cc%3E/commit/${commit}?at=${commit}`
    ],
    ['a path that leaves its directory', 'git.test:../../x', pattern, null],
    [
      'a path that contains a placeholder',
      'git.test:{commit}',
      pattern,
      `https://git.example.org/%7Bcommit%7D/commit/${commit}?at=${commit}`
    ]
  ]
  for (const [what, repository, given, address] of cases)
    t.equal(commitUrl(claim({ commit, repository }), given), address, what)
  t.equal(commitUrl(null, pattern), null)
  t.equal(commitUrl(claim({ repository: 'https://github.com/a/b' }), ''), null, 'no commit')
})

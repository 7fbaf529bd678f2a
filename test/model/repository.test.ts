import t from 'tap'
import { repositoryPlace, withoutCredentials } from '../../lib/model/repository.js'

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

import t from 'tap'
import { proposedPath } from '../../../../www/elements/projects/proposed-path.js'

t.test('proposes a directory named after the project', async t => {
  const cases: Array<[base: string, name: string, path: string]> = [
    ['/srv', 'storefront', '/srv/storefront'],
    ['/srv/', 'My Shop: Staging', '/srv/my-shop-staging'],
    ['/srv', ' ../etc ', '/srv/etc'],
    ['/srv', '商店 v1.2', '/srv/商店-v1.2'],
    ['/srv', '///', ''],
    ['/srv', '', ''],
    ['', 'storefront', ''],
    ['C:\\sites', 'a b', 'C:\\sites\\a-b']
  ]
  for (const [base, name, path] of cases) t.equal(proposedPath(base, name), path, `${base} ${name}`)
})

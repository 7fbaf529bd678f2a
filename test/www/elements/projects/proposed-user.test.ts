import t from 'tap'
import { checkUserName } from '../../../../lib/cli/system-user.js'
import { createCommand, proposedUser } from '../../../../www/elements/projects/proposed-user.js'

t.test('proposes a system user named after the project', async t => {
  for (const [name, user] of [
    ['storefront', 'storefront'],
    ['My Shop: Staging', 'my-shop-staging'],
    ['Café Zürich', 'cafe-zurich'],
    ['2nd shop', 'nd-shop'],
    [' ../etc ', 'etc'],
    ['-rf', 'rf'],
    ['Root', 'root-site'],
    [`${'a'.repeat(31)} b`, 'a'.repeat(31)],
    ['商店', ''],
    ['商店 shop', 'shop'],
    ['', '']
  ] as const) {
    t.equal(proposedUser(name), user, name)
    if (user !== '') t.doesNotThrow(() => checkUserName(user), name)
  }
})

t.test('the command that creates a project with its user survives any name', async t => {
  t.equal(
    createCommand({ name: 'shop', path: '/srv/shop', user: 'shop' }),
    'svc projects create shop --path /srv/shop --user shop'
  )
  t.match(createCommand({ name: "a'; $(id)", path: '/srv/a b', user: 'a' }), `'a'\\''; $(id)' --path '/srv/a b'`)
})

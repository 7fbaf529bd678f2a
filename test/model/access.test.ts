import t from 'tap'
import { accessRoles, includesRole } from '../../lib/model/access.js'

t.test('each role includes the rights of those before it, and of no other', async t => {
  const included = accessRoles.map(role => accessRoles.filter(wanted => includesRole(role, wanted)))
  t.same(included, [
    ['viewer'],
    ['viewer', 'deployer'],
    ['viewer', 'deployer', 'operator'],
    ['viewer', 'deployer', 'operator', 'admin']
  ])
})

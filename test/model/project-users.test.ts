import t from 'tap'
import { namesOf, warningOfUsers, withoutUser } from '../../lib/model/project-users.js'

const project = (name: string, runAs: string | null = null) => ({ name, runAs })

t.test('names the projects that have no user of their own', async t => {
  const mixed = [project('a', 'shop'), project('b'), project('c\nd')]
  t.same(withoutUser(mixed), mixed.slice(1))
  t.match(warningOfUsers(mixed), /as root, [^]*: "b", "c.*d"\. Set one/)
  t.notMatch(warningOfUsers(mixed), /\n|"a"/)
  t.equal(warningOfUsers([project('a', 'shop')]), null)
  t.equal(warningOfUsers([]), null)
  t.match(namesOf(Array.from({ length: 12 }, (_, index) => project(`p${index}`))), /"p9", and 2 more$/)
})

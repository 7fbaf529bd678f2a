import t from 'tap'
import { distanceOf, environmentOf, familiesOf, nextOf, splitName } from '../../lib/model/family.js'
import { aProject } from '../core/store/stage.js'

const project = (name: string, given: Partial<ReturnType<typeof aProject>> = {}) =>
  aProject({ id: `proj_${name}`, name, env: 'production', tagIds: [], policy: {}, ...given })
const from = (name: string) => ({ policy: { promoteFrom: { projectId: `proj_${name}`, soakMinutes: 0 } } })
const rules = {
  tagNames: new Map([
    ['tag_a', 'app:Portal'],
    ['tag_b', 'node']
  ]),
  defaultEnv: 'production'
}
const families = (...projects: Array<ReturnType<typeof project>>) =>
  familiesOf(projects, rules).map(({ name, members }) => [name, members.map(({ name }) => name)])

t.test('the word of an environment is a part of a name, with separators', async t => {
  for (const [name, base, word] of [
    ['shop-staging', 'shop', 'staging'],
    ['shop_PROD', 'shop', 'prod'],
    ['shop.test2', 'shop', 'test'],
    ['shop (qa)', 'shop', 'qa'],
    ['shop-staging-eu-west-1', 'shop-eu-west-1', 'staging'],
    ['contest-rules', 'contest-rules', null],
    ['dev.example.com', 'example.com', 'dev'],
    ['shop', 'shop', null],
    ['contest', 'contest', null],
    ['staging', 'staging', null],
    ['-test', '-test', null],
    ['testing ground', 'ground', 'testing']
  ] as const) {
    t.same(splitName(name), { base, word }, name)
  }
})

t.test('the environment in a name counts where the project was left at the default', async t => {
  t.equal(environmentOf({ name: 'shop-test', env: 'production' }, 'production'), 'test')
  t.equal(environmentOf({ name: 'shop-test', env: 'staging' }, 'production'), 'staging')
  t.equal(environmentOf({ name: 'shop', env: 'production' }, 'production'), 'production')
})

t.test('families have a common base name, a common tag, or take releases from each other', async t => {
  t.same(families(project('shop'), project('blog'), project('blogger-test')), [], 'nobody is alone in a family')
  t.same(
    families(project('shop'), project('Shop-dev'), project('shop-eu', { env: 'eu' }), project('shop-staging')),
    [['shop', ['Shop-dev', 'shop-staging', 'shop']]],
    'in the order in which a release passes them'
  )
  t.same(
    families(
      project('a'),
      project('b', { tagIds: ['tag_b', 'tag_a'] }),
      project('portal-test'),
      project('c', { tagIds: ['tag_b'] })
    ),
    [['Portal', ['portal-test', 'b']]],
    'the tag names the family, and other tags do not'
  )
  t.same(
    families(
      project('www', from('site-test')),
      project('site-test'),
      project('site-dev'),
      project('mirror', from('www'))
    ),
    [['site', ['site-dev', 'site-test', 'mirror', 'www']]]
  )
  t.same(families(project('a', from('b')), project('b', from('a'))), [['b', ['a', 'b']]], 'a circle ends')
  t.same(
    families(project('x2-test'), project('x2'), project('x10'), project('x10-test')).map(([name]) => name),
    ['x2', 'x10']
  )
})

t.test('a release goes to the projects that take it, else to those of the next environment', async t => {
  const [dev, test, eu, us] = [project('s-dev'), project('s-test'), project('s', { id: 'proj_eu' }), project('s-prod')]
  const members = [dev, test, eu, us]
  t.same(nextOf(members, dev, 'production'), [test.id])
  t.same(nextOf(members, test, 'production'), [eu.id, us.id])
  t.same(nextOf(members, us, 'production'), [])
  const strict = project('s-prod', from('s-dev'))
  t.same(nextOf([dev, test, strict], dev, 'production'), [strict.id])
  t.same(nextOf([dev, test, strict], test, 'production'), [], 'it refuses any other')
})

t.test('releases are apart by the number that the first environment had in between', async t => {
  const history = ['a', 'b', 'c', 'd']
  t.same(distanceOf('d', 'd', history), { isSame: true, releases: 0 })
  t.same(distanceOf('b', 'd', history), { isSame: false, releases: 2 })
  t.same(distanceOf('d', 'b', history), { isSame: false, releases: -2 }, 'it went back')
  t.same(distanceOf('x', 'd', history), { isSame: false, releases: null })
  t.equal(distanceOf(null, 'd', history), null)
  t.equal(distanceOf('a', null, history), null)
})

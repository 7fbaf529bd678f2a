import t from 'tap'
import { isInside } from '../../lib/base/paths.js'

const cases: Array<[directory: string, path: string, inside: boolean]> = [
  ['/srv/site', '/srv/site', true],
  ['/srv/site', '/srv/site/a/b', true],
  ['/srv/site', '/srv/site/..config', true],
  ['/srv/site', '/srv/site-old', false],
  ['/srv/site', '/srv', false],
  ['/srv/site', '/', false],
  ['/', '/srv', true]
]

for (const [directory, path, inside] of cases) {
  t.test(`${path} is ${inside ? '' : 'not '}inside ${directory}`, async t => {
    t.equal(isInside(directory, path), inside)
  })
}

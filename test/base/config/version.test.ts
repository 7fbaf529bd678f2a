import { readFileSync } from 'node:fs'
import t from 'tap'
import { readVersion, versionIn } from '../../../lib/base/config/version.js'

t.test('returns the version of the package, also in a checkout, and dev for a build without one', async t => {
  const text = readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8')
  t.equal(readVersion(), (JSON.parse(text) as { version: string }).version)
  t.equal(versionIn('{"version":"1.2.3"}'), '1.2.3')
  t.equal(versionIn('{"name":"svc"}'), 'dev')
})

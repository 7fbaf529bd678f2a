import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { packageVersion, readVersion } from '../../../lib/base/config/version.js'

t.test('returns dev for a checkout of the sources, and the version for a package', async t => {
  const top = new URL('../../../../', import.meta.url)
  const { version } = JSON.parse(readFileSync(new URL('package.json', top), 'utf8')) as { version: string }
  t.equal(readVersion(), existsSync(new URL('.git', top)) ? 'dev' : version)
  t.equal(packageVersion(), version)
})

import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { readVersion } from '../../lib/config/version.js'

t.test('a checkout of the sources is dev, a package has its version', async t => {
  const top = new URL('../../../', import.meta.url)
  const { version } = JSON.parse(readFileSync(new URL('package.json', top), 'utf8')) as { version: string }
  t.equal(readVersion(), existsSync(new URL('.git', top)) ? 'dev' : version)
})

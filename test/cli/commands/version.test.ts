import { readFileSync } from 'node:fs'
import t from 'tap'
import { packageVersion } from '../../../lib/cli/commands/version.js'
import { svc } from '../../support/svc.js'

t.test('version, --version and -v print the version of the package', async t => {
  const { version } = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  t.equal(await packageVersion(), version)
  const cwd = t.testdir({})
  const [command, option] = await Promise.all([svc(['version'], { cwd }), svc(['--version'], { cwd })])
  t.match(command, { code: 0, stdout: `${version}\n`, stderr: '' })
  t.equal(option.stdout, command.stdout)
})

import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'

t.test('version, --version and -v print the version of the package', async t => {
  const { version } = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  const cwd = t.testdir({})
  const [command, option] = await Promise.all([svc(['version'], { cwd }), svc(['--version'], { cwd })])
  t.match(command, { code: 0, stdout: `${version}\n`, stderr: '' })
  t.equal(option.stdout, command.stdout)
})

t.test('home prints the data directory', async t => {
  const cwd = t.testdir({})
  t.equal((await svc(['home'], { cwd, env: { SVC_HOME: join(cwd, 'else') } })).stdout, `${join(cwd, 'else')}\n`)
  t.equal((await svc(['home'], { cwd, env: { SVC_HOME: '' } })).stdout, `${join(cwd, '.svc')}\n`, 'below HOME')
  t.match(JSON.parse((await svc(['home', '--json'], { cwd })).stdout), { configFile: join(cwd, '.svc', 'config.json') })
})

import t from 'tap'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'

t.test('home prints the data directory', async t => {
  const cwd = t.testdir({})
  t.equal((await svc(['home'], { cwd, env: { SVC_HOME: join(cwd, 'else') } })).stdout, `${join(cwd, 'else')}\n`)
  t.equal((await svc(['home'], { cwd, env: { SVC_HOME: '' } })).stdout, `${join(cwd, '.svc')}\n`, 'below HOME')
  t.match(JSON.parse((await svc(['home', '--json'], { cwd })).stdout), { configFile: join(cwd, '.svc', 'config.json') })
})

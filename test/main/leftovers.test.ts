import { existsSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../support/serve-process.js'

t.test('a start removes what killed processes left in the data directory, and says so once', async t => {
  const cwd = t.testdir({ elsewhere: {} })
  const home = join(cwd, 'server-home')
  const first = await startServeProcess(t, cwd)
  await first.api('POST', '/api/projects', { name: 'Shop', deployPath: join(cwd, 'www') })
  await first.stop('SIGKILL')
  const gone = ['config.json.0123456789ab.tmp', 'variables.key.0123456789ab.tmp', 'svc.db.tmp', 'svc.db.redo.tmp', 'svc.db.schema-3.tmp', 'health.probe']
  const kept = ['svc.db.schema-3', 'notes.tmp', 'config.json.bak']
  for (const name of [...gone, ...kept]) {
    writeFileSync(join(home, name), '{"adminToken":"in clear"}')
    utimesSync(join(home, name), 1_000_000_000, 1_000_000_000)
  }

  const second = await startServeProcess(t, cwd)
  await second.warns(/Removed what killed processes left behind: .*svc\.db\.tmp/)
  t.equal((await second.api<unknown[]>('GET', '/api/projects')).length, 1)
  // It writes its own svc.db.tmp meanwhile.
  await second.stop()
  for (const name of gone) t.notOk(existsSync(join(home, name)), name)
  for (const name of kept) t.ok(existsSync(join(home, name)), name)

  const third = await startServeProcess(t, cwd)
  t.equal((await third.api<unknown[]>('GET', '/api/projects')).length, 1)
  t.equal(third.saidOnStderr(), '', 'a clean start has nothing to say')
})

t.test('one that cannot be removed keeps no server from starting', async t => {
  const cwd = t.testdir({ elsewhere: { 'config.json': '{}' }, 'server-home': { 'health.probe': { 'a-directory': '' } } })
  const home = join(cwd, 'server-home')
  symlinkSync(join(cwd, 'elsewhere/config.json'), join(home, 'config.json'))
  const server = await startServeProcess(t, cwd)
  await server.warns(/What a killed process left in ".*server-home" could not be removed: /)
  t.equal((await server.api<unknown[]>('GET', '/api/projects')).length, 0)
})

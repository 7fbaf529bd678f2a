import { existsSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../support/serve-process.js'

t.test('removes what killed processes left in the data directory, and reports it once', async t => {
  const cwd = t.testdir({ elsewhere: {} })
  const home = join(cwd, 'server-home')
  const first = await startServeProcess(t, cwd)
  await first.api('POST', '/api/projects', { name: 'Shop', deployPath: join(cwd, 'www') })
  await first.stop('SIGKILL')
  const gone = [
    'config.json.0123456789ab.tmp',
    'variables.key.0123456789ab.tmp',
    'keys/server.ed25519.0123456789ab.tmp',
    'keys/server.pub.0123456789ab.tmp',
    'svc.db.tmp',
    'svc.db.redo.tmp',
    'svc.db.schema-3.tmp',
    'health.probe'
  ]
  const kept = ['svc.db.schema-3', 'notes.tmp', 'config.json.bak']
  mkdirSync(join(home, 'keys'), { recursive: true, mode: 0o700 })
  for (const name of [...gone, ...kept]) {
    writeFileSync(join(home, name), '{"adminToken":"in clear"}')
    utimesSync(join(home, name), 1_000_000_000, 1_000_000_000)
  }

  const second = await startServeProcess(t, cwd)
  await second.warns(/Removed files that killed processes left behind: .*svc\.db\.tmp/)
  t.equal((await second.api<unknown[]>('GET', '/api/projects')).length, 1)
  // The server itself writes svc.db.tmp meanwhile.
  await second.stop()
  for (const name of gone) t.notOk(existsSync(join(home, name)), name)
  for (const name of kept) t.ok(existsSync(join(home, name)), name)

  const third = await startServeProcess(t, cwd)
  t.equal((await third.api<unknown[]>('GET', '/api/projects')).length, 1)
  // As root, svc names the projects without a user of their own.
  const said = third.saidOnStderr().split('\n')
  t.strictSame(
    said.filter(line => line !== '' && !line.includes('no user of their own')),
    [],
    'a clean start prints no other warning'
  )
})

t.test('starts even if a leftover cannot be removed', async t => {
  const cwd = t.testdir({
    elsewhere: { 'config.json': '{}' },
    'server-home': { 'health.probe': { 'a-directory': '' } }
  })
  const home = join(cwd, 'server-home')
  symlinkSync(join(cwd, 'elsewhere/config.json'), join(home, 'config.json'))
  const server = await startServeProcess(t, cwd)
  await server.warns(/Cannot remove the files that killed processes left in ".*server-home": /)
  t.equal((await server.api<unknown[]>('GET', '/api/projects')).length, 0)
})

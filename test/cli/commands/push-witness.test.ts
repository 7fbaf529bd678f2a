import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('a push is a witness of the audit log', async t => {
  const cwd = t.testdir({ dist: { 'index.html': 'one' }, old: {} })
  const first = await startServe(t, cwd)
  const home = join(cwd, 'laptop')
  mkdirSync(home)
  const shop = await first.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: shop.id, outputDir: 'dist' }))
  const push = (url: string, ...words: string[]) =>
    svc(['push', ...words], { cwd, env: { SVC_HOME: home, SVC_SERVER_URL: url, SVC_DEPLOY_TOKEN: shop.token } })

  t.match(await push(first.url), { code: 0 })
  const notes = () => readdirSync(join(home, 'witness')).filter(name => name.endsWith('.note'))
  t.equal(notes().length, 1)
  await first.stop()
  const data = first.home
  cpSync(data, join(cwd, 'old'), { recursive: true })

  const second = await startServe(t, cwd)
  for (let n = 0; n < 9; n++) await second.createProject({ name: `forum ${n}`, deployPath: join(cwd, `forum${n}`) })
  t.match(await push(second.url, '--witness', 'strict'), { code: 0 }, 'the log has grown')
  await second.stop()

  rmSync(data, { recursive: true })
  cpSync(join(cwd, 'old'), data, { recursive: true })
  const third = await startServe(t, cwd)
  const warned = await push(third.url)
  t.match(warned, { code: 0, stderr: /warning: The audit log of .* has lost entries: it had \d+, and now has \d\./ })
  t.match(await push(third.url, '--witness', 'strict'), { code: 1, stderr: /has lost entries/ })
  const later = await push(third.url, '--at', '00:00', '--witness', 'strict')
  t.match(later, { code: 1, stdout: /scheduled/, stderr: /has lost entries/ }, 'also if it begins later')
  t.notMatch((await push(third.url, '--witness', 'off')).stderr, /audit log/)
  for (const name of notes()) rmSync(join(home, 'witness', name))
  t.match(await push(third.url, '--witness', 'strict'), { code: 0 }, 'after the note was removed')
  t.ok(existsSync(join(home, 'witness', 'servers.json')))
})

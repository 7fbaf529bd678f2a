import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { stagingName } from '../../../lib/install/staging.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('a target that is gone for good is given up, and one that is there is not', async t => {
  const cwd = t.testdir({})
  const target = join(cwd, 'site')
  const server = await startServeProcess(t, cwd)
  const lost = 'dep_aaaaaaaaaaaaaaaa'
  const journal = join(cwd, 'server-home/deployments', `${lost}.undo`)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const forget = (...words: string[]) => svc(['target', 'forget', lost, ...words], { cwd, env })
  t.match(await forget('--yes'), { code: 1, stderr: /Unfinished target/ })
  mkdirSync(join(target, stagingName(lost)), { recursive: true })
  writeFileSync(journal, `svc-undo 4\ntarget ${target}\n`)
  t.match(await forget(), { code: 1, stderr: /use --yes/ })
  t.match(await forget('--yes'), { code: 1, stderr: /is there\. Restart the server/ })
  t.ok(existsSync(journal))
  rmSync(target, { recursive: true })
  t.match(await forget('--yes'), { code: 0, stdout: new RegExp(`Gave up .* of ${lost}`) })
  t.notOk(existsSync(journal))
  t.match(await server.api('GET', '/api/audit?limit=1'), { items: [{ action: 'deployment.give_up', target: lost }] })
})

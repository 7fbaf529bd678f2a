import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { verified } from '../../audit/export-stage.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('exports the audit log to a file', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const path = join(cwd, 'audit.jsonl')

  const { code, stdout, stderr } = await svc(['audit', 'export', '--out', 'audit.jsonl'], admin)
  t.equal(code, 0, stderr)
  t.equal(stdout, `${path}\n`)
  t.match(stderr, 'Exported 2 entries (')
  t.match(verified(readFileSync(path)), { faults: [], entries: 2 })
  t.equal(statSync(path).mode & 0o777, 0o600)

  await t.test('or a part of it', async t => {
    const part = await svc(['audit', 'export', '--from', '2', '--to', '2', '--json'], admin)
    const result = JSON.parse(part.stdout) as { path: string }
    t.match(result, { ok: true, entries: 1, omitted: 2, faults: [] })
    t.match(result.path, /svc-audit-.*\.jsonl$/)
    t.match(verified(readFileSync(result.path)), { faults: [], entries: 1, omitted: 2 })
  })

  await t.test('and leaves nothing behind after a refusal', async t => {
    const before = readdirSync(cwd)
    t.match(await svc(['audit', 'export', '--from', '99'], admin), { code: 1, stderr: /"from" is 99/ })
    const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: shop.token } }
    t.match(await svc(['audit', 'export', '--out', 'no.jsonl'], pusher), { code: 1 })
    t.notOk(existsSync(join(cwd, 'no.jsonl')))
    t.same(readdirSync(cwd), before)
  })
})

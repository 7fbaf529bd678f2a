import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { localRestoreFindings, restoreFindings } from '../../../lib/cli/doctor/restore.js'
import type { HealthDetail } from '../../../lib/model/health.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'

type Found = Array<{ check: string; result: string; detail: string }>

t.test('a restore is told of before the start, after it, and as long as the earlier files are there', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const env = { SVC_HOME: server.home }
  const found = async (...words: string[]): Promise<Found> => {
    const { stdout } = await svc(['doctor', '--json', ...words], { cwd, env })
    return (JSON.parse(stdout) as { findings: Found }).findings.filter(({ check }) => check === 'Restore')
  }
  t.match(await svc(['backup', 'a.zip'], { cwd, env }), { code: 0 })
  const asked = ['--server', server.url, '--token', server.adminToken]
  t.same(await found(...asked), [])
  await server.stop()
  t.match(await svc(['restore', '--force', 'a.zip'], { cwd, env }), { code: 0 })
  const beside = { result: 'warning', detail: /the files before a restore are in .*\.before-/ }
  t.match(await found(), [{ result: 'warning', detail: /a backup of 20\S+Z was restored, and .* not started/ }, beside])

  const again = await startServe(t, cwd)
  // It listens before it has recorded the restore.
  const note = join(server.home, 'svc.restored')
  await until(() => !existsSync(note) || readFileSync(note, 'utf8') === '')
  const after = await found('--server', again.url, '--token', again.adminToken)
  t.match(after, [beside, { result: 'warning', detail: /^from a backup of 20\S+Z, at the start of 20\S+Z$/ }])
})

t.test('a restore that is not finished, and a damaged note of one', async t => {
  const directory = t.testdir({})
  const home = { directory, restored: join(directory, 'svc.restored') } as Parameters<typeof localRestoreFindings>[0]
  t.same(await localRestoreFindings(home), [])
  t.same(await localRestoreFindings({ ...home, directory: join(directory, 'missing') }), [])
  writeFileSync(home.restored, '')
  t.same(await localRestoreFindings(home), [], 'the start has applied it')
  for (const text of ['{', 'null', '[]', '{"backupAt": 1}']) {
    writeFileSync(home.restored, text)
    t.match(await localRestoreFindings(home), [{ result: 'failure', detail: /svc\.restored is damaged/ }], text)
  }
  mkdirSync(join(directory, '.restore-arriving'))
  t.match(await localRestoreFindings(home), [{ result: 'warning', detail: /not all of its files are in place/ }])
  t.same(readdirSync(directory).sort(), ['.restore-arriving', 'svc.restored'], 'nothing was changed')
})

t.test('a restore of more than a week ago is no warning', async t => {
  const at = '2026-11-01T00:00:00.000Z'
  const detail = (serverTime: string, restored?: HealthDetail['restored']) =>
    restoreFindings({ serverTime, restored } as HealthDetail).map(({ result }) => result)
  t.same(detail('2026-11-02T00:00:00.000Z', { at, backupAt: at }), ['warning'])
  t.same(detail('2026-11-09T00:00:00.000Z', { at, backupAt: at }), ['pass'])
  t.same(detail('2026-11-09T00:00:00.000Z', null), [])
  t.same(detail('2026-11-09T00:00:00.000Z'), [], 'an older server')
})

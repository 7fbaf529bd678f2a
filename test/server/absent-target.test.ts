import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { HealthDetail } from '../../lib/model/health.js'
import { startServeProcess } from '../support/serve-process.js'
import { until } from '../support/until.js'
import { targetFindings } from '../../lib/cli/commands/doctor.js'

/* A server is killed in the middle of a change, and the disk of the target is missing at the next start. */

t.test('a target that is away is listed, and finished when it is back', async t => {
  const cwd = t.testdir({})
  const target = join(cwd, 'site')
  const deployments = join(cwd, 'server-home/deployments')
  const journal = (): string | undefined => readdirSync(deployments).find(name => name.endsWith('.undo'))
  const first = await startServeProcess(t, cwd)
  const project = await first.createProject({ name: 'site', deployPath: target })
  const files = (text: string) =>
    Object.fromEntries(Array.from({ length: 2000 }, (_, at) => [`d${at % 9}/f${at}`, `${text} ${at}`]))
  await (await first.upload(project, files('one'))).finished
  const second = await first.upload(project, files('two'))
  second.finished.catch(() => 'the server was killed')
  await until(
    () => journal() !== undefined && /\nready /.test(readFileSync(join(deployments, String(journal())), 'utf8'))
  )
  await first.stop('SIGKILL')
  if (journal() === undefined) return t.plan(0, 'it was faster than the kill')

  renameSync(target, `${target}.away`)
  mkdirSync(target)
  writeFileSync(join(target, 'other'), 'of another disk')
  const without = await startServeProcess(t, cwd)
  const { unfinishedTargets, ...detail } = await without.api<HealthDetail>('GET', '/api/health/detail')
  t.same(unfinishedTargets, [{ deployId: second.deployId, target }])
  t.match(targetFindings({ ...detail, unfinishedTargets: unfinishedTargets as [] }), [
    {
      result: 'failure',
      detail: new RegExp(target),
      advice: new RegExp(`Mount the disk.*svc target forget ${second.deployId}`)
    }
  ])
  t.ok(existsSync(join(deployments, `${second.deployId}.undo`)))
  t.strictSame(readdirSync(target), ['other'])
  await without.stop('SIGKILL')

  rmSync(target, { recursive: true })
  renameSync(`${target}.away`, target)
  const back = await startServeProcess(t, cwd)
  await until(async () => (await back.api<HealthDetail>('GET', '/api/health/detail')).unfinishedTargets?.length === 0)
  const words = new Set(
    readdirSync(target).flatMap(folder =>
      readdirSync(join(target, folder)).map(name => readFileSync(join(target, folder, name), 'utf8').split(' ')[0])
    )
  )
  t.equal(words.size, 1, `all of it is ${[...words].join(' and ')}`)
})

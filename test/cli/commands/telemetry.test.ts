import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'

const config = (cwd: string) =>
  JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as Record<string, unknown>

t.test('telemetry lists the data that leaves the machine', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': JSON.stringify({ serverUrl: 'https://deploy.test' }) } })
  const status = async (env: Record<string, string> = {}) => (await svc(['telemetry:status'], { cwd, env })).stdout
  const answer = async () => JSON.parse((await svc(['telemetry:status', '--json'], { cwd })).stdout)

  t.match(await status(), /Nothing is sent: no endpoint is configured\./)
  t.match(await answer(), { enabled: true, endpoint: null, source: null, instanceId: null, sends: false })
  t.strictSame(config(cwd), { serverUrl: 'https://deploy.test' }, 'asking changes nothing')

  const set = await svc(['telemetry:endpoint', 'https://me:secret@stats.test/report'], { cwd })
  t.match(set, {
    code: 0,
    stdout: /reported to stats\.test, with only these fields: event, ts, svcVersion, instanceId, os, arch\./
  })
  t.notMatch(set.stdout, 'secret')
  t.equal(config(cwd)['telemetryEndpoint'], 'https://me:secret@stats.test/report')
  t.match(
    await status({ SVC_TELEMETRY_ENDPOINT: 'https://other.test' }),
    /https:\/\/other\.test \(SVC_TELEMETRY_ENDPOINT\)/
  )
  t.match(
    await status({ SVC_TELEMETRY_ENDPOINT: 'other' }),
    /Nothing is sent: the endpoint is not an http or https address/
  )

  t.match((await svc(['telemetry:off'], { cwd })).stdout, /Nothing is sent: telemetry is off\./)
  t.match(await answer(), { enabled: false, sends: false })
  t.match((await svc(['telemetry:on', '--json'], { cwd })).stdout, /"sends": true/)

  for (const word of ['default', 'reset']) {
    await svc(['telemetry:endpoint', 'https://stats.test/report'], { cwd })
    t.match((await svc(['telemetry:endpoint', word], { cwd })).stdout, /no endpoint is configured/)
    t.notOk('telemetryEndpoint' in config(cwd))
  }
  t.match(config(cwd), { serverUrl: 'https://deploy.test', telemetryEnabled: true })
  t.match(await svc(['telemetry:endpoint', 'stats.test'], { cwd }), {
    code: 2,
    stderr: /must be an http or https address/
  })
  t.equal((await svc(['telemetry:endpoint'], { cwd })).code, 2)
})

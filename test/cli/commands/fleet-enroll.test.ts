import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FakeAgent } from '../../support/fake-agent.js'
import { startFleet } from '../../support/fleet-on-server.js'

t.test('prints the command for the machine, and nothing else on standard output', async t => {
  const { stage, run } = await startFleet(t)
  const { code, stdout, stderr } = await run('fleet enroll --name web-1 --label zone=eu --for 10m')
  t.equal(code, 0)
  const [, token = ''] = /^SVC_ENROLL_TOKEN=(svcnode_\S+) svc agent --hub \S+\n$/.exec(stdout) ?? []
  t.match(stdout, `--hub ${stage.url}\n`)
  t.match(stderr, /One machine may become a node until .* UTC/)
  t.match(await new FakeAgent(stage.url).enroll(token), { status: 200, json: { name: 'web-1' } })
  t.match((await stage.client.get('/api/nodes/web-1')).body, { node: { labels: { zone: 'eu' } } })
})

t.test('writes the token to a file that only its user reads', async t => {
  const { stage, run } = await startFleet(t)
  const ended = await run('fleet enroll --out node.token')
  t.match(ended, { code: 0, stdout: '', stderr: /--enroll - < node\.token/ })
  const file = join(stage.sites, 'node.token')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.match(readFileSync(file, 'utf8'), /^svcnode_\S+\n$/)
  t.match(await run('fleet enroll --out node.token --json'), { code: 2, stderr: /--out or --json/ })
})

t.test('tokens are listed and revoked', async t => {
  const { run } = await startFleet(t)
  t.match(await run('fleet enrollments'), { code: 0, stdout: '', stderr: /no valid enrollment token/ })
  const { enrollment, command } = JSON.parse((await run('fleet enroll --json')).stdout)
  t.match(command, /^SVC_ENROLL_TOKEN=svcnode_\S+ svc agent --hub \S+$/)
  t.match(await run('fleet enrollments'), { code: 0, stdout: new RegExp(`^ID.*\\n${enrollment.id} +its host name`) })
  t.match(await run(`fleet enrollments --revoke ${enrollment.id}`), { code: 0, stdout: /was revoked/ })
  t.match(await run(`fleet enrollments --revoke ${enrollment.id}`), { code: 1, stderr: /not found/ })
  t.equal((await run('fleet enrollments --json')).stdout.trim(), '[]')
  t.match(await run('fleet enroll --for soon'), { code: 2, stderr: /--for cannot be "soon"/ })
})

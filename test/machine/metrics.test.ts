import t from 'tap'
import { startServer } from '../support/server.js'
import { parseMetrics } from '../support/prometheus.js'

t.test('metrics cover the server, its projects, its store and its streams', async t => {
  const { client, createProject } = await startServer(t)
  await createProject('one')
  await createProject('two')
  const { text } = await client.get('/metrics')
  const metrics = parseMetrics(text)
  t.ok(metrics !== undefined)
  const value = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  t.equal(value('svc_projects'), 2)
  t.equal(value('svc_store_healthy'), 1)
  t.ok(value('svc_store_commits_total') >= 2)
  t.ok(value('svc_process_resident_memory_bytes') > 1e6)
  t.ok(Math.abs(value('svc_start_time_seconds') - Date.now() / 1000) < 600)
  for (const name of ['deployments_queued', 'deployments_running', 'uploads_in_flight', 'log_searches_in_flight']) {
    t.equal(value(`svc_${name}`), 0, name)
  }
  t.match(text, /^svc_followers\{of="log"\} 0$/m)
})

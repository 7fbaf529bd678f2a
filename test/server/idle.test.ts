import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createClient } from '../support/client.js'
import { startServeProcess } from '../support/serve-process.js'
import { openStream } from '../support/sse.js'
import { noPty, openTerminal } from '../support/web-terminal.js'
import { until } from '../support/until.js'

const watch = fileURLToPath(new URL('../support/watch-timers.js', import.meta.url))
/** Time without work in which a timer of less than a second would have been set again. */
const silenceMs = 2500
/** Idle threads and files are kept for some seconds. */
const maxSilences = 6

t.test('leaves no timer faster than a second when nobody is connected any more', async t => {
  const directory = t.testdir({ 'app.log': 'one\n' })
  const server = await startServeProcess(t, directory, [], {}, { nodeWords: ['--import', watch] })
  const client = createClient(() => server.url, server.adminToken)
  const log = join(directory, 'app.log')

  // Everything that waits for something: a deployment, a stream of its output and of a file, a search, a terminal.
  const project = await server.createProject({ name: 'Idle', deployPath: join(directory, 'www') })
  const { deployId, finished } = await server.upload(project, { 'a.txt': 'a' }, { postDeploy: 'echo done' })
  await finished
  const output = await openStream(client, `/api/logs/${deployId}/stream`)
  await output.next('status')
  const { body } = await client.post(`/api/projects/${project.id}/log-sources`, { items: [{ filePath: log }] })
  const tail = await openStream(client, `/api/log-sources/${body.items[0].id}/stream`)
  await tail.next('snapshot')
  appendFileSync(log, 'two\n')
  await tail.next(({ data }) => JSON.stringify(data).includes('two'))
  const search = await openStream(client, `/api/log-sources/${body.items[0].id}/search?q=two&context=0`)
  await search.next('done')
  if (!noPty) {
    const terminal = await openTerminal({ url: server.url, client })
    terminal.type('exit\n')
    await terminal.closed()
  }
  for (const stream of [output, tail, search]) stream.close()

  const quick = async (): Promise<string[]> => {
    const before = server.said().length
    process.kill(server.pid, 'SIGUSR2')
    return JSON.parse(await until(() => /^timers: (.*)\n/m.exec(server.said().slice(before))?.[1])) as string[]
  }
  let left = await quick()
  for (let silences = 0; silences < maxSilences && (silences === 0 || left.length > 0); silences++) {
    await sleep(silenceMs)
    left = await quick()
  }
  t.same(left, [])
  // Looks twice, because a timer that comes and goes could be missed once.
  await sleep(silenceMs)
  t.same(await quick(), [])
  t.equal(await server.stop(), 0)
})

const skip =
  process.platform === 'linux' && process.version.startsWith('v20.') ? false : 'the figure is one of Linux and Node 20'

t.test('uses less than 40 MB after the start', { skip }, async t => {
  // The number of the system (VmRSS) differs by 15 MB from start to start: V8 keeps what it has collected, and keeps
  // more if the cores are busy.
  const preload = new URL('../support/report-memory.js', import.meta.url).href
  const server = await startServeProcess(t, t.testdir({}), [], {}, { nodeWords: ['--expose-gc', '--import', preload] })
  // Answered when everything is loaded.
  t.same(await server.api('GET', '/api/projects'), [])
  process.kill(server.pid, 'SIGUSR2')
  const bytes = Number(await until(() => /^memory: (\d+)\n/m.exec(server.said())?.[1]))
  t.ok(bytes > 0 && bytes < 40_000_000, `${bytes} bytes`)
  await server.stop()
})

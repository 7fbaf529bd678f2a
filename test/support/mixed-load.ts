import { appendFileSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Project } from '../../lib/model/project.js'
import { createClient, eventsOf, formOf, type Client } from './client.js'
import { createRandom, type Random } from './random.js'
import type { ServeProcess } from './serve-process.js'
import { openStream } from './sse.js'
import { noPty, openTerminal } from './web-terminal.js'
import { zipOf } from './zip.js'

export interface LoadOptions {
  server: ServeProcess
  /** The directory of targets and logs. */
  sites: string
  seed: number
  /** Whether shells are left without closing them; the server keeps those for two minutes. */
  leavesShells: boolean
}

export interface Load {
  /** Runs the load until this time. Resolves after the last operation. */
  run(seconds: number): Promise<void>
  /** How often each operation ran. */
  done: Record<string, number>
  /** Honest operations that failed, with their seed. */
  faults: string[]
}

/** Runs everything that users do to a server at the same time. Each kind of work has its own loop and seed. */
export async function createMixedLoad({ server, sites, seed, leavesShells }: LoadOptions): Promise<Load> {
  const client = createClient(() => server.url, server.adminToken)
  const as = (project: Project): Client => createClient(() => server.url, project.token)
  const make = async (name: string): Promise<Project> =>
    (await client.post('/api/projects', { name, deployPath: join(sites, name) })).body.project
  const [shop, blog, slow, broken] = [await make('shop'), await make('blog'), await make('slow'), await make('broken')]
  const log = join(sites, 'app.log')
  appendFileSync(log, 'first line\n')
  const { body } = await client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath: log }] })
  const sourcePath = `/api/log-sources/${body.items[0].id}`
  const done: Record<string, number> = {}
  const faults: string[] = []
  let lines = 0

  const expect = (isRight: boolean, sentence: () => string): void => {
    if (!isRight) throw new Error(sentence())
  }

  /** Returns files of a site: some are large, some are the same each time. */
  const filesOf = (random: Random): Record<string, Uint8Array> => {
    const files: Record<string, Uint8Array> = {
      'index.html': Buffer.from(`<p>${random.below(1e9)}`),
      'same.txt': Buffer.from('same')
    }
    for (let at = random.below(30); at >= 0; at--) {
      const bytes = Buffer.alloc(random.below(at === 0 ? 400_000 : 3000), random.below(256))
      for (let place = 0; place < bytes.length; place += 7) bytes[place] = random.below(256)
      files[`${random.oneOf(['a', 'b/c', 'd'])}/${at}.bin`] = bytes
    }
    return files
  }

  const push = async (
    project: Project,
    bytes: Uint8Array,
    fields: Array<[string, string]> = []
  ): Promise<{ status: number; ended: string; text: string }> => {
    const reply = await as(project).upload([
      ['projectId', project.id],
      ...fields,
      ['file', { filename: 'a.zip', bytes }]
    ])
    const ended = reply.status === 200 ? String(eventsOf(reply).at(-1)?.status) : ''
    return { status: reply.status, ended, text: reply.text.slice(-300) }
  }

  const deploys =
    (project: Project) =>
    async (random: Random): Promise<void> => {
      const files = filesOf(random)
      const fields: Array<[string, string]> =
        random.below(3) === 0 ? [['postDeploy', 'seq 1 500; echo "$SVC_DEPLOY_ID"']] : []
      const { status, ended, text } = await push(project, await zipOf(files), fields)
      expect(status === 200 && ended === 'success', () => `deploy: ${status} ${ended} ${text}`)
      for (const [path, bytes] of Object.entries(files)) {
        expect(
          readFileSync(join(project.deployPath, path)).equals(bytes),
          () => `deploy: ${path} is not what was uploaded`
        )
      }
    }

  const damages = async (random: Random): Promise<void> => {
    const zip = await zipOf(filesOf(random))
    const cut = zip.subarray(0, 1 + random.below(zip.length - 1))
    const kind = random.below(4)
    if (kind === 0) {
      // The connection ends within the body.
      const { contentType, body: form } = formOf([
        ['projectId', broken.id],
        ['file', { filename: 'a.zip', bytes: zip }]
      ])
      const head = `POST /api/deploy/upload HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${broken.token}\r\ncontent-type: ${contentType}\r\ncontent-length: ${form.length}\r\n\r\n`
      const { hostname, port } = new URL(server.url)
      const socket = connect(Number(port), hostname)
      const closed = new Promise(resolve => socket.on('error', () => {}).once('close', resolve))
      socket.write(Buffer.concat([Buffer.from(head), form.subarray(0, random.below(form.length))]))
      await sleep(random.below(200))
      socket.destroy()
      await closed
      return
    }
    const bytes = kind === 1 ? cut : kind === 2 ? Buffer.alloc(1 + random.below(100_000), 7) : Buffer.from(zip)
    // Every entry's data, so that no check sum is right.
    if (kind === 3) for (let at = 60; at < bytes.length - 2000; at += 50) bytes[at] = (bytes[at] as number) ^ 0x55
    const { ended } = await push(broken, bytes)
    expect(kind === 3 || ended !== 'success', () => `a damaged archive (${kind}) was deployed`)
  }

  const cancels = async (random: Random): Promise<void> => {
    const bytes = await zipOf({ 'a.txt': String(random.below(1e9)) })
    const { contentType, body: form } = formOf([
      ['projectId', slow.id],
      ['preDeploy', 'echo started; sleep 20'],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const reply = await as(slow).open('POST', '/api/deploy/upload', {
      headers: { 'content-type': contentType },
      body: form
    })
    const id = String(reply.headers['x-svc-deploy-id'])
    reply.on('error', () => {})
    const ended = new Promise(resolve => reply.once('close', resolve))
    const isLeft = random.below(2) === 0
    if (isLeft) reply.destroy()
    else reply.resume()
    await sleep(random.below(800))
    const { status } = await client.post(`/api/deployments/${id}/cancel`)
    expect(status === 200, () => `cancel of ${id}: ${status}`)
    if (!isLeft) await ended
    for (let waited = 0; (await client.get(`/api/logs/${id}`)).body.status !== 'failed'; waited++) {
      expect(waited < 100, () => `${id} was not cancelled`)
      await sleep(100)
    }
  }

  const follows = async (random: Random): Promise<void> => {
    const { body: records } = await client.get('/api/logs?limit=5')
    const record = records.length === 0 ? undefined : random.oneOf(records as Array<{ id: string }>)
    if (record === undefined) return void (await sleep(200))
    const stream = await openStream(client, `/api/logs/${record.id}/stream`)
    if (random.below(2) === 0) await sleep(random.below(500))
    else
      await stream.next(({ event, data }) => event === 'status' && ['success', 'failed'].includes(data.status), 60_000)
    stream.close()
    await stream.ended
  }

  /** Writes in one step, so that a search always finds a file. */
  const rotate = (): void => {
    rmSync(`${log}.1`, { force: true })
    linkSync(log, `${log}.1`)
    writeFileSync(`${log}.new`, 'first line\n')
    renameSync(`${log}.new`, log)
  }

  const tails = async (random: Random): Promise<void> => {
    const stream = await openStream(client, `${sourcePath}/stream`)
    await stream.next('snapshot', 30_000)
    const mark = `mark ${random.below(1e9)} ${lines++}`
    appendFileSync(log, `${mark}\n`)
    await stream.next(({ data }) => JSON.stringify(data).includes(mark), 30_000)
    if (random.below(5) === 0) rotate()
    appendFileSync(log, `${'x'.repeat(random.below(20_000))}\n`)
    stream.close()
    await stream.ended
  }

  const searches = async (random: Random): Promise<void> => {
    const stream = await openStream(
      client,
      `${sourcePath}/search?q=${random.oneOf(['mark', 'x', 'no-such-word'])}&context=0`
    )
    expect(stream.status === 200 || stream.status === 404, () => `search: ${stream.status}`)
    if (stream.status === 200 && random.below(3) > 0) await stream.next('done', 60_000)
    stream.close()
    await stream.ended
  }

  const shells = async (random: Random): Promise<void> => {
    const terminal = await openTerminal({ url: server.url, client })
    const word = `word${random.below(1e9)}`
    terminal.type(`echo ${word}''end; seq 1 ${random.below(3000)}\n`)
    await terminal.sees(new RegExp(`${word}end`))
    if (random.below(4) === 0) terminal.raw.close(1000)
    else terminal.type('exit\n')
    await terminal.closed()
    terminal.raw.socket.destroy()
  }

  /** At most ten at once, including those that were left. */
  const leaves = async (random: Random): Promise<void> => {
    const terminal = await openTerminal({ url: server.url, client })
    terminal.type('seq 1 1000\n')
    await sleep(random.below(300))
    terminal.raw.socket.destroy()
    await sleep(30_000)
  }

  const reads = async (random: Random): Promise<void> => {
    const path = random.oneOf([
      '/',
      '/api/health',
      '/api/health/detail',
      '/api/projects',
      `/api/projects/${shop.id}`,
      '/api/settings',
      '/api/audit?limit=20',
      `/api/logs?projectId=${shop.id}`,
      '/api/overview',
      '/api/stats',
      '/api/storage',
      '/api/system/resources'
    ])
    const { status } = await client.get(path)
    expect(status < 500, () => `GET ${path}: ${status}`)
    expect((await client.get('/api/nothing')).status === 404, () => 'a path that is not there')
    await client.put('/api/settings', { keep_archives: String(3 + random.below(5)) })
  }

  const rollsBack = async (random: Random): Promise<void> => {
    const { body: records } = await client.get(`/api/logs?projectId=${blog.id}&status=success&limit=20`)
    const kept = (records as Array<{ id: string; hasArtifact: boolean }>).filter(({ hasArtifact }) => hasArtifact)
    if (kept.length === 0) return void (await sleep(300))
    const { status, body: answer } = await client.post(`/api/deployments/${random.oneOf(kept).id}/rollback`)
    // Retention may have taken the archive since.
    expect(
      [200, 404, 409].includes(status) && (status !== 200 || answer.success === true),
      () => `rollback: ${status} ${JSON.stringify(answer).slice(0, 200)}`
    )
    await sleep(random.below(2000))
  }

  const work: Record<string, (random: Random) => Promise<void>> = {
    deploys: deploys(shop),
    damages,
    cancels,
    follows,
    'follows 2': follows,
    tails,
    searches,
    reads,
    rollsBack,
    ...(!noPty && { shells }),
    ...(!noPty && leavesShells && { leaves })
  }

  async function goRound(name: string, random: Random, untilMs: number): Promise<void> {
    while (performance.now() < untilMs && faults.length < 20) {
      await (work[name] as (random: Random) => Promise<void>)(random).catch(
        (error: Error) => void faults.push(`${name}: ${error.message}`)
      )
      done[name] = (done[name] ?? 0) + 1
    }
  }

  // libuv opens an inotify instance for the first watch, and keeps it.
  await tails(createRandom(seed))
  const randoms = Object.keys(work).map((_, at) => createRandom(seed * 100 + at))
  return {
    done,
    faults,
    async run(seconds) {
      // What the rollbacks go back to; nothing else deploys there.
      for (let count = 0; count < 3; count++) await deploys(blog)(createRandom(seed + count))
      const untilMs = performance.now() + seconds * 1000
      await Promise.all(Object.keys(work).map((name, at) => goRound(name, randoms[at] as Random, untilMs)))
    }
  }
}

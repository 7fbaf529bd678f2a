import t, { type Test } from 'tap'
import { once } from 'node:events'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startServeProcess } from '../support/serve-process.js'
import { until } from '../support/until.js'

const lineBytes = 1000
const blockLines = 4_000
const blocks = 50
const total = blocks * blockLines
const mebibyte = 1024 * 1024
/** A third of what is appended; what a reader that stalls may cost is the buffers on its way. */
const mayGrowBytes = 64 * mebibyte
/** Half of what the snapshots have together. */
const mayTakeBytes = 512 * mebibyte

/** A server, and a log source of an empty file. */
async function start(t: Test) {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const path = join(cwd, 'app.log')
  writeFileSync(path, '')
  const { id } = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const {
    items: [source]
  } = await server.api<{ items: [{ id: string }] }>('POST', `/api/projects/${id}/log-sources`, {
    items: [{ filePath: path }]
  })
  const ofProcess = (file: string, name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${server.pid}/${file}`, 'utf8'))?.[1])
  return {
    server,
    path,
    ofProcess,
    rssBytes: () => ofProcess('status', 'VmRSS') * 1024,
    peakBytes: () => ofProcess('status', 'VmHWM') * 1024,
    follow: (tailLines: number) => ask(`stream?tailLines=${tailLines}`),
    ask
  }

  function ask(what: string, token = server.adminToken): Promise<IncomingMessage> {
    return new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` }
      const url = `${server.url}/api/log-sources/${source.id}/${what}`
      const asking = request(url, { headers, agent: false }, resolve)
      t.teardown(() => asking.destroy())
      asking.on('error', reject).end()
    })
  }
}

t.test(
  'a client that does not read what a log stream sends',
  { skip: !existsSync('/proc/self/io') && 'only Linux tells what another process uses' },
  async t => {
    const { path, ofProcess, rssBytes, peakBytes, follow } = await start(t)
    const reply = await follow(200)
    reply.setEncoding('utf8')
    for (let said = ''; !said.includes('event: snapshot'); ) {
      const piece = reply.read() as string | null
      if (piece === null) await once(reply, 'readable')
      else said += piece
    }
    const before = rssBytes()
    const readBefore = ofProcess('io', 'rchar')

    let number = 0
    for (let block = 0; block < blocks; block++) {
      appendFileSync(
        path,
        Array.from({ length: blockLines }, () => `${`${number++} `.padEnd(lineBytes - 1, 'x')}\n`).join('')
      )
    }
    // Until it has stopped reading: the client's buffers are full.
    for (let seen = -1, still = 0; still < 5; await sleep(100)) {
      const now = ofProcess('io', 'rchar')
      still = now === seen ? still + 1 : 0
      seen = now
    }
    const readBytes = ofProcess('io', 'rchar') - readBefore
    t.ok(
      readBytes > 0 && readBytes < (total * lineBytes) / 2,
      `it reads no further than the client does: ${Math.round(readBytes / mebibyte)} MiB`
    )
    t.ok(peakBytes() - before < mayGrowBytes, `and holds ${Math.round((rssBytes() - before) / mebibyte)} MiB more`)

    let next = 0
    let rest = ''
    for await (const chunk of reply) {
      const events = (rest + chunk).split('\n\n')
      rest = events.pop() as string
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1]
        for (const line of data === undefined ? [] : (JSON.parse(data).lines as string[])) {
          if (!line.startsWith(`${next} `)) throw new Error(`Line ${next} was to come, not "${line.slice(0, 20)}"`)
          next++
        }
      }
      if (next === total) break
    }
    t.equal(next, total, 'once it reads again it gets every line, once, in order')
    t.ok(
      peakBytes() - before < mayGrowBytes,
      `at most ${Math.round((peakBytes() - before) / mebibyte)} MiB more, all in all`
    )
  }
)

t.test(
  'clients that do not read the snapshots of a long log',
  { skip: !existsSync('/proc/self/io') && 'only Linux tells what another process uses' },
  async t => {
    const { path, rssBytes, follow } = await start(t)
    writeFileSync(path, `${'x'.repeat(400)}\n`.repeat(6_000))
    const before = rssBytes()
    const replies: IncomingMessage[] = []
    while (replies.length < 600 && replies.at(-1)?.statusCode !== 429) replies.push(await follow(5_000))
    const refused = replies.pop() as IncomingMessage
    t.equal(refused.statusCode, 429, `one of them is refused after ${replies.length}`)
    t.ok(refused.headers['retry-after'])
    let text = ''
    for await (const chunk of refused) text += String(chunk)
    t.match(JSON.parse(text), { code: 'too_much_at_once' })
    t.ok(replies.length > 400)
    const grownBytes = rssBytes() - before
    t.ok(grownBytes < mayTakeBytes, `the others hold ${Math.round(grownBytes / mebibyte)} MiB`)
    for (const reply of replies) reply.destroy()
    await until(async () => {
      const again = await follow(10)
      again.destroy()
      return again.statusCode === 200
    })
  }
)

t.test('searches of one caller that it does not read leave a place to others', async t => {
  const { server, path, ask } = await start(t)
  writeFileSync(path, `${'x'.repeat(1000)}\n`.repeat(20_000))
  for (let at = 0; at < 6; at++) await ask('search?q=x&maxHits=5000&context=20')
  const { token } = await server.api<{ token: string }>('POST', '/api/tokens', { name: 'reader', role: 'viewer' })
  const reply = await ask('search?q=x&maxHits=3&context=0', token)
  let text = ''
  for await (const chunk of reply) text += String(chunk)
  t.match(text, /event: truncated/)
  t.equal(text.match(/event: hit/g)?.length, 3)
})

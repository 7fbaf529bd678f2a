import t from 'tap'
import { once } from 'node:events'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startServeProcess } from '../support/serve-process.js'

const lineBytes = 1000
const blockLines = 4_000
const blocks = 50
const total = blocks * blockLines
const mebibyte = 1024 * 1024
/** A third of what is appended; what a reader that stalls may cost is the buffers on its way. */
const mayGrowBytes = 64 * mebibyte

t.test(
  'a client that does not read what a log stream sends',
  { skip: !existsSync('/proc/self/io') && 'only Linux tells what another process uses' },
  async t => {
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
    const rssBytes = () => ofProcess('status', 'VmRSS') * 1024
    const peakBytes = () => ofProcess('status', 'VmHWM') * 1024

    const reply = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${server.adminToken}` }
      const asking = request(`${server.url}/api/log-sources/${source.id}/stream`, { headers, agent: false }, resolve)
      asking.on('error', reject).end()
    })
    t.teardown(() => reply.destroy())
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

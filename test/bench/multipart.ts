/*
 * One part of 1 GiB in chunks of 64 KiB, parsed in process (issue: at least 2 times busboy, level with
 * @fastify/busboy). Every contestant reads the same stream of the same random bytes.
 */
import { randomBytes } from 'node:crypto'
import { Readable, type Writable } from 'node:stream'
import { parseMultipart } from '../../lib/http/form/multipart.js'
import { compare, sized } from '../support/bench.js'
import { rivals } from '../support/rivals.js'

const boundary = '----WebKitFormBoundary7MA4YWxkTrZu0gW'
const contentType = `multipart/form-data; boundary=${boundary}`
const chunkBytes = 64 * 1024
const totalBytes = sized(1024 * 1024 * 1024, 1024 * 1024)
const mebibytes = totalBytes / 1024 / 1024

const head = Buffer.from(
  `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n` +
    'Content-Type: application/zip\r\n\r\n'
)
const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
// 4 MiB of them, so that no cache holds them all.
const chunks = Array.from({ length: 64 }, () => randomBytes(chunkBytes))

function source(): Readable {
  let sent = -1
  return new Readable({
    highWaterMark: chunkBytes,
    read() {
      sent++
      if (sent === 0) this.push(head)
      else if (sent <= totalBytes / chunkBytes) this.push(chunks[sent % chunks.length])
      else if (sent === totalBytes / chunkBytes + 1) this.push(tail)
      else this.push(null)
    }
  })
}

async function rate(run: () => Promise<number>): Promise<number> {
  const startedAt = process.hrtime.bigint()
  const bytes = await run()
  if (bytes !== totalBytes) throw new Error(`${bytes} bytes came out of ${totalBytes}`)
  return mebibytes / (Number(process.hrtime.bigint() - startedAt) / 1e9)
}

function count(stream: Readable): () => number {
  let bytes = 0
  stream.on('data', (chunk: Buffer) => void (bytes += chunk.length))
  return () => bytes
}

async function ours(): Promise<number> {
  let counted = (): number => 0
  await parseMultipart(source(), contentType, {
    field() {},
    file({ stream }) {
      counted = count(stream)
      return new Promise((resolve, reject) => stream.on('end', resolve).on('error', reject))
    }
  })
  return counted()
}

type Busboy = (options: { headers: Record<string, string>; limits: { fileSize: number } }) => Writable

function busboy(create: Busboy): Promise<number> {
  return new Promise((resolve, reject) => {
    const parser = create({ headers: { 'content-type': contentType }, limits: { fileSize: Infinity } })
    let counted = (): number => 0
    parser.on('file', (_name: string, stream: Readable) => void (counted = count(stream)))
    parser.on('error', reject)
    parser.on('close', () => resolve(counted()))
    parser.on('finish', () => setImmediate(() => resolve(counted())))
    source().pipe(parser)
  })
}

/** Measures the minimum for any parser that searches with `indexOf`. */
function bareScan(): Promise<number> {
  const needle = Buffer.from(`\r\n--${boundary}`)
  return new Promise(resolve => {
    let bytes = 0
    source()
      .on('data', (chunk: Buffer) => {
        if (chunk.length === chunkBytes && chunk.indexOf(needle) === -1) bytes += chunk.length
      })
      .on('end', () => resolve(bytes))
  })
}

const load = await rivals({ busboy: '1.6.0', '@fastify/busboy': '3.2.0' })
const plain = load === null ? null : await load<Busboy>('busboy')
const fastify = load === null ? null : await load<Busboy>('@fastify/busboy')
await compare({
  name: `multipart: one part of ${mebibytes} MiB in chunks of 64 KiB`,
  unit: 'MB/s',
  contestants: {
    ours: () => rate(ours),
    busboy: plain && (() => rate(() => busboy(plain))),
    '@fastify/busboy': fastify && (() => rate(() => busboy(options => fastify(options)))),
    'indexOf alone': () => rate(bareScan)
  },
  goals: [
    { beside: 'busboy', atLeast: 2 },
    { beside: '@fastify/busboy', atLeast: 1 }
  ]
})

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { parseMultipart, type MultipartLimits } from '../../../lib/http/form/multipart.js'
import { createRandom } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'

const fixtures = new URL('../../../../test/fixtures/multipart/', import.meta.url)
const boundary = 'AaB03x'
const contentType = `multipart/form-data; boundary=${boundary}`

type Seen = ['field', string, string] | ['file', string, string, string, string]

/** Returns what came out, in order; a refusal as its code. */
async function read(source: Readable, limits?: Partial<MultipartLimits>, type = contentType): Promise<Seen[] | string> {
  const seen: Seen[] = []
  try {
    await parseMultipart(source, type, {
      field: (name, value) => void seen.push(['field', name, value]),
      async file({ name, filename, contentType, stream }) {
        const pieces: Buffer[] = []
        for await (const piece of stream) pieces.push(piece as Buffer)
        seen.push(['file', name, filename, contentType, Buffer.concat(pieces).toString('latin1')])
      },
      ...(limits === undefined ? {} : { limits })
    })
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw error
  }
  return seen
}

function fixture(name: string): Buffer {
  return readFileSync(new URL(`${name}.txt`, fixtures))
}

const plain = 'application/octet-stream'

const expected: Record<string, Seen[] | string> = {
  'fields-and-a-file': [
    ['field', 'projectId', 'proj_1'],
    ['file', 'file', 'site.zip', 'application/zip', 'PK\x03\x04\r\n\x00\xff']
  ],
  'no-parts': [],
  'preamble-and-epilogue': [['field', 'a', '1']],
  'no-line-end-after-the-closing-boundary': [['field', 'a', '1']],
  'blanks-after-the-boundary': [
    ['field', 'a', '1'],
    ['field', 'b', '2']
  ],
  'boundary-like-content': [
    [
      'file',
      'file',
      'a',
      plain,
      '--AaB03\r\n--AaB03y\r\n-AaB03x--\r\n --AaB03x\r\n\r\r\n--\r\n--AaB0\r--AaB03x\n--AaB03x\r\n'
    ]
  ],
  'boundary-that-goes-on': [['file', 'file', 'a', plain, '--AaB03xyz\r\ninner\r\n--AaB03x-1\r\ninner\r\n--AaB03xyz--']],
  'content-begins-with-a-longer-boundary': [['file', 'file', 'a', plain, '--AaB03xyz']],
  'empty-contents': [
    ['field', 'a', ''],
    ['file', 'file', 'e', plain, '']
  ],
  'headers-without-content': [
    ['field', 'a', ''],
    ['field', 'b', '2']
  ],
  'content-of-line-ends': [['file', 'file', 'a', plain, '\r\n\r\n\r\r\n']],
  'quoted-and-escaped-names': [
    ['file', 'a"b\\c', 'new "x".zip', plain, '1'],
    ['file', 'plain', 'p.zip', plain, '2']
  ],
  'extended-file-names': [
    ['file', 'a', 'naïve €.zip', plain, '1'],
    ['file', 'b', '£.zip', plain, '2'],
    ['file', 'c', 'z.zip', plain, '3']
  ],
  'utf-8-names-and-values': [
    ['file', 'größe', 'дом.zip', plain, 'x'],
    ['field', 'v', '€ü']
  ],
  'folded-headers': [['file', 'a', 'b.zip', 'application/zip', '1']],
  'same-name-twice': [
    ['field', 'a', '1'],
    ['field', 'a', '2']
  ],
  'empty-file-name': [['file', 'file', '', plain, '']],
  'transfer-encoding-binary': [['field', 'a', '1']],
  'refuse-empty-body': 'broken_boundary',
  'refuse-no-boundary-line': 'broken_boundary',
  'refuse-other-boundary': 'broken_boundary',
  'refuse-cut-in-headers': 'truncated',
  'refuse-cut-in-content': 'truncated',
  'refuse-cut-before-the-last-hyphen': 'truncated',
  'refuse-text-after-the-boundary': 'broken_boundary',
  'refuse-bare-cr-after-the-boundary': 'broken_boundary',
  'refuse-bare-lf-in-headers': 'broken_header',
  'refuse-header-without-colon': 'broken_header',
  'refuse-no-disposition': 'broken_header',
  'refuse-no-name': 'broken_header',
  'refuse-attachment': 'broken_header',
  'refuse-broken-parameters': 'broken_header',
  'refuse-base64': 'broken_header',
  'refuse-field-that-is-not-utf-8': 'invalid_field'
}

t.test('has an expectation for every fixture', async t => {
  t.same(
    readdirSync(fixtures)
      .map(name => name.replace('.txt', ''))
      .sort(),
    Object.keys(expected).sort()
  )
})

for (const [name, wanted] of Object.entries(expected)) {
  t.test(name, async t => {
    const bytes = fixture(name)
    t.same(await read(Readable.from([bytes])), wanted, 'whole')
    t.same(await read(Readable.from([...bytes].map(byte => Buffer.of(byte)))), wanted, 'one byte at a time')
    for (let at = 1; at < bytes.length; at++) {
      const found = await read(Readable.from([bytes.subarray(0, at), bytes.subarray(at)]))
      if (isDeepStrictEqual(found, wanted)) continue
      t.same(found, wanted, `cut at ${at}`)
      break
    }
  })
}

t.test('refuses an invalid content type', async t => {
  const form = () => Readable.from([fixture('fields-and-a-file')])
  const cases: Array<[string, string]> = [
    ['', 'unsupported_type'],
    ['application/json', 'unsupported_type'],
    ['multipart/mixed; boundary=AaB03x', 'unsupported_type'],
    ['multipart/form-data', 'no_boundary'],
    ['multipart/form-data; boundary=', 'no_boundary'],
    ['multipart/form-data; boundary="a\u00e4"', 'broken_boundary'],
    ['multipart/form-data; boundary="ends with a space "', 'broken_boundary'],
    [`multipart/form-data; boundary=${'x'.repeat(71)}`, 'broken_boundary']
  ]
  for (const [type, code] of cases) t.equal(await read(form(), {}, type), code, type)
  t.equal((await read(form(), {}, 'Multipart/Form-Data; charset=utf-8; BOUNDARY="AaB03x"')).length, 2)
})

t.test('refuses what exceeds a limit', async t => {
  const part = (head: string, content: string) =>
    `--AaB03x\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`
  const end = '--AaB03x--\r\n'
  const field = part('name="a"', '12345')
  const file = part('name="f"; filename="f"', '1')
  const cases: Array<[string, Partial<MultipartLimits>, string]> = [
    [field + field + end, { maxFields: 1 }, 'too_many_fields'],
    [file + file + end, { maxFiles: 1 }, 'too_many_files'],
    [field + file + end, { maxParts: 1 }, 'too_many_parts'],
    [field + end, { maxFieldBytes: 4 }, 'field_too_long'],
    [field + field + end, { maxFieldsBytes: 9 }, 'field_too_long'],
    [field + end, { maxHeaderBytes: 20 }, 'header_too_long'],
    [`${'x'.repeat(100)}\r\n${field}${end}`, { maxPreambleBytes: 99 }, 'broken_boundary'],
    [`${field}${end}${'x'.repeat(100)}`, { maxEpilogueBytes: 99 }, 'epilogue_too_long']
  ]
  for (const [body, limits, code] of cases) {
    t.equal(await read(Readable.from([Buffer.from(body)]), limits), code)
    t.equal(await read(Readable.from([...Buffer.from(body)].map(byte => Buffer.of(byte))), limits), code)
    t.not(typeof (await read(Readable.from([Buffer.from(body)]))), 'string', 'within the defaults')
  }
})

t.test('fails the file and then the form if the source is interrupted', async t => {
  const bytes = fixture('fields-and-a-file')
  for (let at = 0; at <= bytes.length; at++) {
    const source = new PassThrough()
    source.write(bytes.subarray(0, at))
    setImmediate(() => source.destroy(new Refusal('invalid', 'aborted', 'cut')))
    let reached: unknown
    const form = parseMultipart(source, contentType, {
      field() {},
      file: ({ stream }) => pipeline(stream, new PassThrough().resume()).catch(error => void (reached = error))
    })
    await t.rejects(form, { code: 'aborted' }, `cut at ${at}`)
    if (reached !== undefined) t.match(reached, { code: 'aborted' })
  }
  const silent = new PassThrough()
  setImmediate(() => silent.destroy())
  t.equal(await read(silent), 'aborted', 'destroyed without a reason')
})

t.test('ends the form with the error of a handler', async t => {
  const source = Readable.from([fixture('fields-and-a-file')])
  const failure = new Error('disk full')
  const handlers = {
    field() {},
    async file() {
      throw failure
    }
  }
  await t.rejects(parseMultipart(source, contentType, handlers), failure)
  await t.rejects(
    parseMultipart(Readable.from([fixture('fields-and-a-file')]), contentType, {
      field() {
        throw failure
      },
      async file() {}
    }),
    failure
  )
})

t.test('continues after a handler that leaves its file unread', async t => {
  const large = Buffer.alloc(1024 * 1024, 'x')
  const head = '--AaB03x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
  const chunks = [Buffer.from(head), large, large, Buffer.from(`\r\n${head}second\r\n--AaB03x--\r\n`)]
  const seen: string[] = []
  await parseMultipart(Readable.from(chunks), contentType, {
    field() {},
    async file({ stream }) {
      if (seen.push('file') === 1) return
      for await (const piece of stream) seen.push(String(piece))
    }
  })
  t.same(seen, ['file', 'file', 'second'])
})

t.test('reads the next part when the handler of the previous one has finished', async t => {
  const head = (name: string) => `--AaB03x\r\nContent-Disposition: form-data; name="${name}"; filename="f"\r\n\r\n`
  const body = Buffer.from(
    `${head('a')}1\r\n${head('b')}2\r\n--AaB03x\r\nContent-Disposition: form-data; name="c"\r\n\r\n3\r\n--AaB03x--`
  )
  const seen: string[] = []
  await parseMultipart(Readable.from([body]), contentType, {
    field: name => void seen.push(name),
    async file({ name, stream }) {
      seen.push(`${name} begins`)
      stream.resume()
      await sleep(10)
      seen.push(`${name} ends`)
    }
  })
  t.same(seen, ['a begins', 'a ends', 'b begins', 'b ends', 'c'])
})

t.test('pauses the source for a slow reader', async t => {
  const chunk = Buffer.alloc(64 * 1024, 'x')
  const head = Buffer.from('--AaB03x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n')
  let sent = 0
  const source = new Readable({
    highWaterMark: chunk.length,
    read() {
      sent++
      this.push(sent === 1 ? head : sent < 200 ? chunk : sent === 200 ? Buffer.from('\r\n--AaB03x--') : null)
    }
  })
  let bytes = 0
  let sentWhileWaiting = 0
  await parseMultipart(source, contentType, {
    field() {},
    async file({ stream }) {
      await sleep(50)
      sentWhileWaiting = sent
      for await (const piece of stream) bytes += (piece as Buffer).length
    }
  })
  t.ok(sentWhileWaiting < 8, `${sentWhileWaiting} chunks were read before the reader began`)
  t.equal(bytes, 198 * chunk.length)
})

t.test('ends the form at an abort, with the reason of the signal', async t => {
  const abort = new AbortController()
  const source = new PassThrough()
  source.write(fixture('fields-and-a-file').subarray(0, 180))
  const form = parseMultipart(source, contentType, { field() {}, async file() {}, signal: abort.signal })
  const reason = new Error('enough')
  abort.abort(reason)
  await t.rejects(form, reason)
  await t.rejects(parseMultipart(source, contentType, { field() {}, async file() {}, signal: abort.signal }), reason)
})

t.test('returns any contents unchanged, however they are cut', async t => {
  const pieces = [
    '\r\n',
    '\r',
    '\n',
    '-',
    '--',
    `--${boundary}`,
    `\r\n--${boundary.slice(0, 4)}`,
    `\r\n--${boundary}x`,
    boundary,
    ' ',
    'ä',
    '\0',
    'text'
  ]
  // Bytes that resemble a delimiter, complete or not.
  const delimiter = new RegExp(`\r\n--${boundary}(--|[\r \t])`)
  for (let seed = 1; seed <= repetitions(300, 1500); seed++) {
    const random = createRandom(seed)
    const content = (): string => {
      const text = random.some(12, () => random.oneOf(pieces)).join('')
      return delimiter.test(`\r\n${text}\r\n`) ? '' : text
    }
    const parts = random.some(
      5,
      (): Seen =>
        random.below(2) === 0
          ? ['field', random.oneOf(['a', 'b']), content()]
          : ['file', 'f', random.oneOf(['x.zip', '']), plain, content()]
    )
    const written = parts.map(part => {
      const name = part[0] === 'file' ? `; filename="${part[2]}"` : ''
      return `--${boundary}\r\nContent-Disposition: form-data; name="${part[1]}"${name}\r\n\r\n${part.at(-1)}\r\n`
    })
    const body = Buffer.from(`${written.join('')}--${boundary}--\r\n`)
    const chunks: Buffer[] = []
    for (let from = 0; from < body.length; from += chunks.at(-1)?.length ?? 0)
      chunks.push(body.subarray(from, from + 1 + random.below(random.oneOf([2, 9, 200]))))
    const seen = await read(Readable.from(chunks))
    const expected = parts.map(part =>
      part[0] === 'file' ? [...part.slice(0, 4), Buffer.from(part[4] as string).toString('latin1')] : part
    )
    if (!isDeepStrictEqual(seen, expected)) t.same(seen, expected, `seed ${seed}`)
  }
})

import { Readable } from 'node:stream'
import t from 'tap'
import { readUploadForm } from '../../lib/api/upload-form.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { Received } from '../../lib/deploy/intake.js'
import { formOf, type FormFields } from '../support/client.js'

const file = { filename: 'a.zip', bytes: Buffer.from('the archive') }

function requestOf(fields: FormFields): ApiRequest {
  const { contentType, body } = formOf(fields)
  return {
    headers: { 'content-type': contentType },
    body: Readable.from([body]),
    hold: () => {},
    signal: new AbortController().signal
  } as unknown as ApiRequest
}

/** Receives files, and counts those that were deleted again. */
function taker() {
  const taken = { texts: [] as string[], discarded: 0 }
  const receive = async (bytes: Readable): Promise<Received> => {
    const chunks: Buffer[] = []
    for await (const chunk of bytes) chunks.push(chunk as Buffer)
    taken.texts.push(Buffer.concat(chunks).toString())
    return { discard: async () => void taken.discarded++ } as unknown as Received
  }
  return { taken, receive }
}

t.test('reads fields and file in any order', async t => {
  const fields: FormFields = [
    ['projectId', 'proj_a'],
    ['file', file],
    ['env', '{}']
  ]
  for (const order of [
    [0, 1, 2],
    [1, 0, 2],
    [2, 0, 1]
  ]) {
    const { taken, receive } = taker()
    const seen: string[] = []
    const form = await readUploadForm(requestOf(order.map(at => fields[at]) as FormFields), {
      receive,
      onField: name => void seen.push(name)
    })
    t.same(taken, { texts: ['the archive'], discarded: 0 })
    t.same(
      form.fields,
      new Map([
        ['projectId', 'proj_a'],
        ['env', '{}']
      ])
    )
    t.same(seen.sort(), ['env', 'projectId'])
  }
})

t.test('deletes the file exactly once after any error', async t => {
  const cases: Array<[FormFields, string, number]> = [
    [
      [
        ['file', file],
        ['a', '1'],
        ['a', '2']
      ],
      'invalid_field',
      1
    ],
    [
      [
        ['file', file],
        ['file', file]
      ],
      'invalid_field',
      1
    ],
    [
      [
        ['file', file],
        ['more', file]
      ],
      'invalid_field',
      1
    ],
    [
      [
        ['file', file],
        ['stop', '']
      ],
      'stopped',
      1
    ],
    [
      [
        ['stop', ''],
        ['file', file]
      ],
      'stopped',
      0
    ],
    [[['file', 'text']], 'invalid_field', 0],
    [[], 'no_file', 0]
  ]
  for (const [fields, code, discarded] of cases) {
    const { taken, receive } = taker()
    const reading = readUploadForm(requestOf(fields), {
      receive,
      onField(name) {
        if (name === 'stop') throw Object.assign(new Error('stop'), { code: 'stopped' })
      }
    })
    await t.rejects(reading, { code }, fields.map(([name]) => name).join())
    t.equal(taken.discarded, discarded)
  }
})

import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import type { Api } from '../../../lib/cli/client/api.js'
import type { Run } from '../../../lib/cli/client/runs.js'
import type { Context } from '../../../lib/cli/command.js'
import type { PackedArchive } from '../../../lib/cli/pack/pack.js'
import { askAgain, uploadArchive } from '../../../lib/cli/pack/upload-archive.js'

const archive = { bytes: 10, sha256: 'ours' } as PackedArchive
const { signal } = new AbortController()
const proxy = (status: number): Refusal => new Refusal('unavailable', `http_${status}`, `A proxy answered ${status}`)
const reset = (code = 'ECONNRESET'): Refusal =>
  new Refusal('unavailable', 'unreachable', 'reset', { cause: Object.assign(new Error(), { code }) })

interface Given {
  /** The result of each try; an upload that fails has sent `sentBytes`. */
  tries: Array<Refusal | 'accepted'>
  sentBytes?: number
  /** What the server lists, newest first; absent: it does not answer. */
  listed?: Array<{ id: string; archiveSha256: string | null }>
  newest?: string | null | undefined
}

/** Uploads to a server that answers as given. Returns the deployment, or the code of the error. */
async function upload({ tries, sentBytes = 10, listed, ...given }: Given) {
  const newest = 'newest' in given ? given.newest : 'dep_0'
  let uploads = 0
  const notes: string[] = []
  const api = {
    address: 'https://a.test',
    async upload({ onProgress }: { onProgress(bytes: number): void }): Promise<Run> {
      const result = tries[uploads++] ?? 'accepted'
      onProgress(result === 'accepted' ? 10 : sentBytes)
      if (result !== 'accepted') throw result
      return { deployId: 'dep_new' } as Run
    },
    async deployments() {
      if (listed === undefined) throw reset()
      return listed
    },
    follow: () => ({})
  } as unknown as Api
  const bar = { update() {}, end() {}, clear() {} }
  const context = {
    output: { note: (line: string) => void notes.push(line), progress: () => bar }
  } as unknown as Context
  const asked = { api, projectId: 'p', archive, fields: {}, newest, given: {}, signal }
  const result = await uploadArchive(asked, context).then(
    ({ deployId }) => deployId,
    (error: Refusal) => error.code
  )
  return { result, uploads, notes }
}

const before = [{ id: 'dep_0', archiveSha256: 'ours' }]

t.test('sends again what a proxy or a reset kept from the server', async t => {
  for (const failure of [proxy(502), proxy(503), proxy(504), reset(), reset('EPIPE'), reset('ECONNREFUSED')]) {
    const { result, uploads, notes } = await upload({ tries: [failure], listed: before })
    t.match({ result, uploads }, { result: 'dep_new', uploads: 2 }, failure.message)
    t.match(notes, [/\. Trying again in/])
  }
  t.match(await upload({ tries: [reset()], sentBytes: 9 }), { result: 'dep_new', uploads: 2 }, 'it was incomplete')
})

t.test('never deploys twice: follows a deployment that began', async t => {
  const listed = [{ id: 'dep_x', archiveSha256: 'theirs' }, { id: 'dep_1', archiveSha256: 'ours' }, ...before]
  t.match(await upload({ tries: [proxy(504)], listed }), { result: 'dep_1', uploads: 1 })
  t.match(await upload({ tries: [reset()], listed: listed.slice(1, 2), newest: null }), { result: 'dep_1', uploads: 1 })
})

t.test('sends nothing again if it cannot know', async t => {
  const unsure = [{ id: 'dep_1', archiveSha256: null }, ...before]
  t.match(await upload({ tries: [proxy(502)], newest: undefined, listed: before }), { result: 'http_502', uploads: 1 })
  t.match(await upload({ tries: [proxy(502)], listed: unsure }), { result: 'stream_broken', uploads: 1 })
  for (const failure of [
    new Refusal('conflict', 'locked', 'locked'),
    new Refusal('unavailable', 'leader_lost', 'lost'),
    reset('ENOTFOUND')
  ])
    t.match(await upload({ tries: [failure], listed: before }), { result: failure.code, uploads: 1 }, failure.code)
})

t.test('asks again before the upload, but not a server that is down', async t => {
  for (const [failure, times] of [
    [proxy(503), 2],
    [reset(), 2],
    [reset('ECONNREFUSED'), 1],
    [new Refusal('unauthorized', 'unauthorized', 'no'), 1]
  ] as const) {
    let asked = 0
    const ask = async (): Promise<string> => {
      if (++asked === 1) throw failure
      return 'yes'
    }
    const answer = await askAgain(ask, signal, () => {}).catch((error: Refusal) => error.code)
    t.strictSame([asked, answer], [times, times === 2 ? 'yes' : failure.code])
  }
})

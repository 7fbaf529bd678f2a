import type { Provenance } from '../../lib/model/provenance.js'
import { deployIdHeader } from './requests.js'
import type { Changes } from './changes.js'
import { Refused, Unreachable } from './client.js'
import type { ImportResult, Strategy } from '../../lib/model/transfer.js'

export interface UploadOptions {
  address: string
  /** The headers of `Client.changeHeaders`. With them the session may upload without the project's token. */
  headers: Record<string, string>
  projectId: string
  /** The archive, or the id of the upload that brought it in pieces. */
  file: File | { uploadId: string }
  message: string
  /** The origin of the archive. */
  provenance: Provenance
  /** The plan that the deployment is held to, if there is one. */
  planId: string | null
  /** Why it begins outside of the windows of the project; null: it does not. */
  override: string | null
  /** Set if the archive contains only what has changed since a release. */
  changes: Pick<Changes, 'base' | 'treeSha256' | 'delta'> | null
  /** The statement about the release, and its signature. */
  attached: { statement: string; signature: string } | null
  onProgress: (sentBytes: number, totalBytes: number) => void
  signal: AbortSignal
}

/**
 * Sends an archive. Uses XMLHttpRequest, because fetch does not report upload progress. Returns the id of the deployment
 * when the server has the archive and the deployment is queued or running. Rejects with Refused, with Unreachable, or
 * with the reason of the signal.
 */
export function upload(options: UploadOptions): Promise<string> {
  const { signal } = options
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = (): void => request.abort()

    request.onreadystatechange = () => {
      if (request.readyState !== XMLHttpRequest.HEADERS_RECEIVED || request.status !== 200) return
      resolve(request.getResponseHeader(deployIdHeader) ?? '')
      // The page of the deployment follows it.
      request.abort()
    }
    request.upload.onprogress = event => options.onProgress(event.loaded, event.total)
    request.onload = () => reject(refusedBy(request))
    request.onerror = () => reject(new Unreachable(new Error('the connection was lost')))
    request.onabort = () => reject(signal.reason)
    request.onloadend = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)

    request.open('POST', options.address)
    for (const [name, value] of Object.entries(options.headers)) request.setRequestHeader(name, value)
    request.setRequestHeader('accept', 'application/x-ndjson')
    request.send(formOf(options))
  })
}

function formOf({
  projectId,
  message,
  provenance,
  planId,
  override,
  changes,
  attached,
  file
}: UploadOptions): FormData {
  const form = new FormData()
  form.set('projectId', projectId)
  if (message !== '') form.set('message', message)
  form.set('provenance', JSON.stringify(provenance))
  if (planId !== null) form.set('planId', planId)
  if (override !== null) form.set('override', override)
  if (changes !== null) {
    form.set('base', changes.base)
    form.set('treeSha256', changes.treeSha256)
    form.set('tree', changes.delta, 'tree')
  }
  if (attached !== null) {
    form.set('statement', attached.statement)
    form.set('signature', attached.signature)
  }
  // The file is last, so the server knows its project before its bytes arrive.
  if (file instanceof File) form.set('file', file)
  else form.set('uploadId', file.uploadId)
  return form
}

function refusedBy(request: XMLHttpRequest): Refused {
  let body: object = {}
  try {
    body = JSON.parse(request.responseText) as object
  } catch {
    // This is the page of a proxy: only its status is useful.
  }
  return new Refused(request.status, body, request.getResponseHeader('retry-after'))
}

/** Whether a proxy refused the size of a request: svc would have said a code. */
export function isProxyLimit(error: unknown): error is Refused {
  return error instanceof Refused && error.status === 413 && error.code === 'unknown'
}

export interface PackageUpload {
  /** Address of `api/migration/import`. */
  address: string
  /** The headers of `Client.changeHeaders`. */
  headers: Record<string, string>
  file: File
  strategy: Strategy
  restoreArtifacts: boolean
  /** Whether to import settings that control access. */
  accessSettings: boolean
  /** Reports what would be imported and changes nothing. */
  dryRun: boolean
  onProgress: (sentBytes: number, totalBytes: number) => void
  signal: AbortSignal
}

/**
 * Sends a package and returns the result of the import. Uses XMLHttpRequest, because fetch does not report upload
 * progress. Confirms overwriting: the caller has asked the user. Rejects with Refused, Unreachable, or the reason of
 * the signal.
 */
export function uploadPackage(options: PackageUpload): Promise<ImportResult> {
  const { file, strategy, signal } = options
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = (): void => request.abort()
    request.upload.onprogress = event => options.onProgress(event.loaded, event.total)
    request.onload = () => {
      const body = bodyOf(request)
      if (request.status === 200) resolve(body as ImportResult)
      else reject(new Refused(request.status, body, request.getResponseHeader('retry-after')))
    }
    request.onerror = () => reject(new Unreachable(new Error('the connection was lost')))
    request.onabort = () => reject(signal.reason)
    request.onloadend = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)

    const switches = {
      restoreArtifacts: options.restoreArtifacts,
      accessSettings: options.accessSettings,
      dryRun: options.dryRun
    }
    const query = new URLSearchParams({
      strategy,
      ...Object.fromEntries(Object.entries(switches).map(([key, on]) => [key, String(on)]))
    })
    request.open('POST', `${options.address}?${query}`)
    for (const [name, value] of Object.entries(options.headers)) request.setRequestHeader(name, value)
    if (strategy === 'overwrite') request.setRequestHeader('x-confirm-overwrite', 'yes')
    const form = new FormData()
    form.set('file', file)
    request.send(form)
  })
}

/** Returns the body of an answer, or an empty object for the page of a proxy. */
function bodyOf(request: XMLHttpRequest): object {
  try {
    return JSON.parse(request.responseText) as object
  } catch {
    return {}
  }
}

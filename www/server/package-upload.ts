import type { ImportResult, Strategy } from '../../lib/model/transfer.js'
import { Refused, Unreachable } from './client.js'

export interface PackageUpload {
  /** Of `api/migration/import`. */
  address: string
  /** As `Client.changeHeaders` gives them. */
  headers: Record<string, string>
  file: File
  strategy: Strategy
  restoreArtifacts: boolean
  /** Settings that decide who has access are taken, too. */
  accessSettings: boolean
  /** Finds out, and changes nothing. */
  dryRun: boolean
  onProgress: (sentBytes: number, totalBytes: number) => void
  signal: AbortSignal
}

/**
 * Sends a package, and resolves with what was done with it. XMLHttpRequest, because fetch does not tell how much has
 * been sent. Overwriting is confirmed to the server (decisions §7): who calls has asked. Rejects: Refused, Unreachable,
 * the signal's reason.
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

    const switches = { restoreArtifacts: options.restoreArtifacts, accessSettings: options.accessSettings, dryRun: options.dryRun }
    const query = new URLSearchParams({ strategy, ...Object.fromEntries(Object.entries(switches).map(([key, on]) => [key, String(on)])) })
    request.open('POST', `${options.address}?${query}`)
    for (const [name, value] of Object.entries(options.headers)) request.setRequestHeader(name, value)
    if (strategy === 'overwrite') request.setRequestHeader('x-confirm-overwrite', 'yes')
    const form = new FormData()
    form.set('file', file)
    request.send(form)
  })
}

/** Empty where it is not the service's own answer, but a proxy's page. */
function bodyOf(request: XMLHttpRequest): object {
  try {
    return JSON.parse(request.responseText) as object
  } catch {
    return {}
  }
}

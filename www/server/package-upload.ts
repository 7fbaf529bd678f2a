import type { ImportResult, Strategy } from '../../lib/model/transfer.js'
import { Refused, Unreachable } from './client.js'

/** What `uploadPackage` needs. */
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

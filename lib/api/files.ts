import { Refusal, invalid } from '../base/refusal.js'
import { attachment, fileReply } from '../http/file.js'
import { json } from '../http/route.js'
import type { FileEntry } from '../model/file-entry.js'
import type { Project } from '../model/project.js'
import { listDirectory, openFile, readPreview } from '../target/browse.js'
import type { ApiRequest, Handler } from './route.js'
import { param } from './route.js'

/** What lies in a project's target (§4.4), never anything outside it. */
export function fileHandlers({ projects }: { projects: { get(id: string): Project } }) {
  return {
    list: async request => {
      const { deployPath } = projects.get(param(request, 'id'))
      const path = request.query.get('path') ?? ''
      if (path === '') return json(await listDirectory(deployPath, path).catch(emptyIfMissing))
      return json(await listDirectory(deployPath, path))
    },

    preview: async request => {
      const { deployPath } = projects.get(param(request, 'id'))
      return json(await readPreview(deployPath, filePath(request)))
    },

    /** Whatever the file is, it comes as one to keep, never as a page of this origin. */
    download: async request => {
      const { deployPath } = projects.get(param(request, 'id'))
      const asked = filePath(request)
      const name = asked.slice(asked.lastIndexOf('/') + 1)
      const headers = { 'content-disposition': attachment(name) }
      return fileReply({ file: () => openFile(deployPath, asked), headers })
    }
  } satisfies Record<string, Handler>
}

function filePath({ query }: ApiRequest): string {
  const path = query.get('path')
  if (!path) throw invalid('path', '"path" is missing: the file, relative to the deployPath, is needed')
  return path
}

/** A target is made by the first deployment: until then it is empty, not missing. */
function emptyIfMissing(error: unknown): FileEntry[] {
  if (error instanceof Refusal && error.kind === 'not_found') return []
  throw error
}

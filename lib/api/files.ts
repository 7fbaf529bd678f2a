import { join } from 'node:path'
import { Refusal, invalid } from '../base/errors.js'
import { attachment, fileReply } from '../http/static/file.js'
import { json } from '../http/core/route.js'
import type { Secrets } from '../logs/read/secrets.js'
import type { FileEntry } from '../model/file-entry.js'
import type { Project } from '../model/project.js'
import type { Targets } from '../projects/targets.js'
import { readPreview, type Inspect } from '../install/browse.js'
import { queryPath } from './query.js'
import { type ApiRequest, type Handler, param } from './route.js'

interface FilesNeeds {
  projects: { get(id: string): Project }
  targets: Pick<Targets, 'list' | 'open'>
  secrets: Secrets
}

/**
 * Handlers that list and read the files of a project's target (§4.4). They never leave the target. Files that may
 * contain secrets are listed, but their content is not shown.
 */
export function fileHandlers({ projects, targets, secrets }: FilesNeeds) {
  /** Checks both the requested path and the real path of the opened file, so that a link cannot bypass the check. */
  function inspect(deployPath: string, asked: string): Inspect {
    const named = { asked, field: 'path' }
    return ({ handle, path }) => {
      secrets.checkPath(join(deployPath, asked), named)
      secrets.checkPath(path, named)
      return secrets.checkOpened(handle, path, named)
    }
  }

  return {
    /** `GET /api/projects/:id/files?path=`: a directory of the target. */
    list: async request => {
      const project = projects.get(param(request, 'id'))
      const path = queryPath(request.query, 'path') ?? ''
      if (path === '') return json(await targets.list(project, path).catch(emptyIfMissing))
      return json(await targets.list(project, path))
    },

    /** `GET /api/projects/:id/file?path=`: the text of a file. */
    preview: async request => {
      const project = projects.get(param(request, 'id'))
      const asked = filePath(request)
      return json(await readPreview(await targets.open(project, asked, inspect(project.deployPath, asked))))
    },

    /** `GET /api/projects/:id/download?path=`: always an attachment, so that no file runs as a page of this origin. */
    download: async request => {
      const project = projects.get(param(request, 'id'))
      const asked = filePath(request)
      const name = asked.slice(asked.lastIndexOf('/') + 1)
      const headers = { 'content-disposition': attachment(name) }
      return fileReply({ file: () => targets.open(project, asked, inspect(project.deployPath, asked)), headers })
    }
  } satisfies Record<string, Handler>
}

function filePath({ query }: ApiRequest): string {
  const path = queryPath(query, 'path')
  if (path === undefined) throw invalid('path', '"path" is missing: expected a path relative to the deployPath')
  return path
}

/** Returns an empty list for a missing target: the first deployment creates it. */
function emptyIfMissing(error: unknown): FileEntry[] {
  if (error instanceof Refusal && error.kind === 'not_found') return []
  throw error
}

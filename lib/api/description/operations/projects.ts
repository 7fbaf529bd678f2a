import { labelFields, newLabelFields } from '../../labels.js'
import { bulkFields, newProjectFields, pinFields, projectFields } from '../../projects.js'
import type { Label } from '../../../model/label.js'
import type { Project } from '../../../model/project.js'
import type { Variable } from '../../../model/variable.js'
import { variablesChangeFields, variablesFields } from '../../variables.js'
import { answer, any, ifUpdatedAt, media, query, type Operations } from '../operation.js'
import { bulkOutcome, done, fileContent, fileEntry, label, project, projectOverview, recentScripts, success, variable } from '../records.js'
import { integer, list, record, text, type Schema } from '../schema.js'

const oneProject = record<{ success: true; project: Project }>({ success, project })
const message = text('The label was deleted')
const path = query('path', 'A path relative to the target, with "/" between segments')

const variableAnswer = answer('The variables; the value of a secret is null', record<{ success: true; variables: Variable[] }>({
  success, variables: list(variable)
}))

interface Removed {
  success: true
  message: string
}

export const projectOperations: Operations = {
  'GET /api/projects': {
    summary: 'List projects',
    parameters: [query('tagIds', 'Only projects that have all of these tags, separated by commas')],
    answers: answer('The projects', list(project))
  },
  'POST /api/projects': {
    summary: 'Create a project',
    body: newProjectFields,
    answers: answer('The project, with its deploy token', oneProject),
    errors: ['path_taken', 'not_found']
  },
  'POST /api/projects/bulk': {
    summary: 'Change or delete several projects',
    body: bulkFields,
    answers: answer('The number of changed projects, and those that failed', record<{ success: true; done: number; failed: Array<{ id: string; error: string }> }>({
      success, ...bulkOutcome
    })),
    errors: ['not_found']
  },
  'GET /api/projects/:id': { summary: 'Get a project', answers: answer('The project', project), errors: ['not_found'] },
  'PUT /api/projects/:id': {
    summary: 'Change a project',
    description: 'Fields that are absent keep their values.',
    parameters: [ifUpdatedAt],
    body: projectFields,
    answers: answer('The project', oneProject),
    errors: ['not_found', 'changed_since', 'path_taken', 'deployment_running']
  },
  'DELETE /api/projects/:id': {
    summary: 'Delete a project, its records and its archives',
    description: 'The target directory stays as it is.',
    answers: answer('The project was deleted', done),
    errors: ['not_found', 'deployment_running']
  },
  'POST /api/projects/:id/token': {
    summary: 'Replace the deploy token of a project',
    answers: answer('The new token', record<{ success: true; token: string }>({ success, token: text('9c1185a5c5e9fc54612808977ee8f548') })),
    errors: ['not_found']
  },
  'PUT /api/projects/:id/pin': {
    summary: 'Pin a project to the overview, or unpin it',
    body: pinFields,
    answers: answer('The project', oneProject),
    errors: ['not_found']
  },
  'GET /api/projects/:id/overview': {
    summary: 'Get what is live, what is broken, and the last deployments of a project', answers: answer('The overview', projectOverview), errors: ['not_found']
  },
  'GET /api/projects/:id/variables': { summary: 'List the variables of a project', answers: variableAnswer, errors: ['not_found'] },
  'PUT /api/projects/:id/variables': {
    summary: 'Replace the variables of a project',
    description: 'Without `value` or `secret`, a variable that is stored keeps it.',
    body: variablesFields,
    answers: variableAnswer,
    errors: ['not_found', 'variables_key']
  },
  'PATCH /api/projects/:id/variables': {
    summary: 'Set and unset variables of a project',
    description: 'Variables that are not named stay. `dotenv` is the text of a .env file; with `secret`, all of it is secret.',
    body: variablesChangeFields,
    answers: variableAnswer,
    errors: ['not_found', 'variables_key']
  },
  'GET /api/projects/:id/recent-scripts': {
    summary: 'Get the scripts of the last successful deployment that ran any',
    answers: answer('The scripts', recentScripts),
    errors: ['not_found']
  },
  'GET /api/projects/:id/files': {
    summary: 'List a directory of the target',
    parameters: [path],
    answers: answer('The entries, directories first', list(fileEntry)),
    errors: ['not_found', 'not_a_directory', 'outside_target', 'invalid_path', 'not_readable', 'invalid_field']
  },
  'GET /api/projects/:id/file': {
    summary: 'Preview a file of the target',
    parameters: [{ ...path, required: true }],
    answers: answer('The text, or the size of a file that is not text', fileContent as Schema<unknown>),
    errors: ['not_found', 'not_a_file', 'outside_target', 'denied_path', 'invalid_path', 'not_readable', 'changed_meanwhile', 'invalid_field']
  },
  'GET /api/projects/:id/download': {
    summary: 'Download a file of the target',
    description: 'Answers ranges and conditional requests (RFC 9110 §13 and §14).',
    parameters: [{ ...path, required: true }],
    answers: {
      ...media('The file', 'application/octet-stream'),
      206: { what: 'A range of the file', media: 'application/octet-stream' },
      304: { what: 'The client has the file' },
      416: { what: 'The range is not in the file' }
    },
    errors: ['not_found', 'not_a_file', 'outside_target', 'denied_path', 'invalid_path', 'not_readable', 'changed_meanwhile', 'invalid_field']
  },
  ...labelOperations({
    kind: 'category',
    path: 'categories',
    one: any(record<{ success: true; category: Label }>({ success, category: label })),
    removed: any(record<Removed & { movedProjects: number }>({ success, message, movedProjects: integer(3) }))
  }),
  ...labelOperations({
    kind: 'tag',
    path: 'tags',
    one: any(record<{ success: true; tag: Label }>({ success, tag: label })),
    removed: any(record<Removed & { detachedProjects: number }>({ success, message, detachedProjects: integer(3) }))
  })
}

interface LabelAnswers {
  kind: 'category' | 'tag'
  path: string
  one: Schema<never>
  removed: Schema<never>
}

function labelOperations({ kind, path, one, removed }: LabelAnswers): Operations {
  return {
    [`GET /api/${path}`]: { summary: `List ${path}`, answers: answer(`The ${path}`, list(label)) },
    [`POST /api/${path}`]: {
      summary: `Create a ${kind}`, body: newLabelFields, answers: answer(`The ${kind}`, one), errors: ['name_taken']
    },
    [`PUT /api/${path}/:id`]: {
      summary: `Change a ${kind}`, parameters: [ifUpdatedAt], body: labelFields, answers: answer(`The ${kind}`, one),
      errors: ['not_found', 'name_taken', 'changed_since']
    },
    [`DELETE /api/${path}/:id`]: {
      summary: `Delete a ${kind}`,
      description: 'Its projects stay.',
      answers: answer('The number of projects that had it', removed),
      errors: ['not_found']
    }
  }
}

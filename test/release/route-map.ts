/*
 * Reads the map of routes (lib/api/map) with the TypeScript compiler: each route with its parameters, its body, its
 * answers and its error codes. A type is a schema, a comment its description. Tags of comments say what types cannot:
 *
 *   @schema Name            the document contains the type once, under this name
 *   @format, @minimum, …    keywords of JSON Schema
 *   @number                 a number that need not be whole
 *   @hidden                 null for callers without a right to it (api/deployments.ts)
 *   @errors a b *group      error codes, and groups of them (lib/api/errors.ts)
 *   @header Name text       a header of an answer
 *   @media, @example        of a body or an answer that is no JSON
 */
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import ts from 'typescript'
import type { JsonSchema, Shape } from '../../lib/base/fields.js'
import { errorGroups } from '../../lib/api/errors.js'
import { policyKeys } from '../../lib/model/policy-keys.js'
import { exampleOf } from './examples.js'

const top = fileURLToPath(new URL('../../../', import.meta.url))
const lib = join(top, 'lib')

/** A parameter of the query, a header, or a part of a form. */
export interface Parameter {
  in?: 'query' | 'header'
  name: string
  description: string
  schema: JsonSchema
  required?: boolean
}

interface Answer {
  what: string
  headers: Record<string, string>
  json?: JsonSchema
  media?: string
  example?: unknown
}

/** A route as the map declares it. */
export interface MappedRoute {
  /** A short sentence in the imperative, without a period. */
  summary: string
  description?: string
  parameters: Parameter[]
  /** The readers of a JSON body: those that the handler uses. */
  body?: { shape: Shape; descriptions: Record<string, string> }
  /** A JSON body whose fields are not known in advance. */
  jsonBody?: { json: JsonSchema; example: unknown }
  isBodyOptional: boolean
  /** A body that is a text. */
  text?: { media: string; description: string; example: string }
  form?: Parameter[]
  /** By status. */
  answers: Record<string, Answer>
  errors: string[]
}

/** Keywords that a tag may give. */
const texts = ['format', 'pattern', 'contentMediaType']
const numbers = ['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems']
const others = ['schema', 'number', 'hidden', 'errors', 'header', 'media', 'example']
const known: ReadonlySet<string> = new Set([...texts, ...numbers, ...others])

/** Returns the routes by method and path, and the named schemas. */
export async function readRouteMap() {
  const file = join(lib, 'api/map/routes.ts')
  const { config } = ts.readConfigFile(join(lib, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, lib)
  const program = ts.createProgram([file], { ...options, noEmit: true, composite: false, incremental: false })
  const reader = createReader(program.getTypeChecker())
  const source = program.getSourceFile(file)
  const map = source?.statements.find(each => ts.isInterfaceDeclaration(each) && each.name.text === 'Routes')
  if (map === undefined) throw new Error(`${file} declares no interface Routes`)
  const routes = new Map<string, MappedRoute>()
  for (const route of reader.fieldsAt(map)) routes.set(route.name, await reader.route(route))
  return { routes, schemas: reader.schemas }
}

interface Doc {
  text: string
  tags: Array<[name: string, text: string]>
}

function createReader(checker: ts.TypeChecker) {
  const schemas = new Map<string, JsonSchema>()

  function docOf(symbol: ts.Symbol | undefined): Doc {
    const parts = ts.displayPartsToString(symbol?.getDocumentationComment(checker) ?? [])
    const text = parts
      .split(/\n\s*\n/)
      .map(plain)
      .join('\n')
    const tags = symbol?.getJsDocTags(checker) ?? []
    const unknown = tags.find(({ name }) => !known.has(name))
    if (unknown !== undefined) throw new Error(`${symbol?.name}: the tag @${unknown.name} is unknown`)
    return { text, tags: tags.map(tag => [tag.name, plain(ts.displayPartsToString(tag.text))]) }
  }

  /** What a comment says of a field: its description and the keywords of its tags. */
  function keywordsOf(doc: Doc): JsonSchema {
    const found = doc.tags.flatMap(([name, text]) =>
      texts.includes(name) ? [[name, text]] : numbers.includes(name) ? [[name, Number(text)]] : []
    )
    return Object.fromEntries(found)
  }

  /** Returns the type of a field, without the `undefined` of one that may be absent. */
  function typeOf(symbol: ts.Symbol): ts.Type {
    const type = checker.getTypeOfSymbol(symbol)
    if (!type.isUnion() || !(symbol.flags & ts.SymbolFlags.Optional)) return type
    const isNull = type.types.some(each => each.flags & ts.TypeFlags.Null)
    // The compiler has a name only for the type without both.
    return isNull ? type : checker.getNonNullableType(type)
  }

  function aliasOf(node: ts.TypeNode | undefined): ts.Symbol | undefined {
    if (node === undefined || !ts.isTypeReferenceNode(node)) return undefined
    const symbol = checker.getSymbolAtLocation(node.typeName)
    return symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  }

  /** Returns the schema of a type and an example. `node` is where the type is written, for aliases and the order of texts. */
  function schemaOf(type: ts.Type, node?: ts.TypeNode, name = ''): { json: JsonSchema; example: unknown } {
    if (node !== undefined && (ts.isParenthesizedTypeNode(node) || ts.isTypeOperatorNode(node)))
      return schemaOf(type, node.type, name)
    const members = node !== undefined && ts.isUnionTypeNode(node) ? [...node.types] : []
    const isNull = (each: ts.Type): boolean => (each.flags & (ts.TypeFlags.Null | ts.TypeFlags.Undefined)) !== 0
    if (type.isUnion() && type.types.some(isNull)) {
      const [inner, ...others] = members.filter(each => each.getText() !== 'null' && each.getText() !== 'undefined')
      const { json, example } = schemaOf(checker.getNonNullableType(type), others.length > 0 ? node : inner, name)
      if (!type.types.some(each => each.flags & ts.TypeFlags.Null)) return { json, example }
      return { json: nullable(json), example }
    }
    if (type.flags & ts.TypeFlags.BooleanLike && !(type.flags & ts.TypeFlags.BooleanLiteral))
      return { json: { type: 'boolean' }, example: true }
    const alias = aliasOf(node)
    if (type.isUnion()) {
      if (type.types.every(each => each.isStringLiteral())) {
        const values = orderedTexts(type, node)
        return { json: { type: 'string', enum: values }, example: values[0] }
      }
      const written = members.length > 0 ? members : membersOf(alias)
      const parts =
        written.length > 0
          ? written.map(each => schemaOf(checker.getTypeFromTypeNode(each), each))
          : type.types.map(each => schemaOf(each))
      if (parts.every(({ json }) => json.type === 'string' || typeof json.const === 'string'))
        return { json: { type: 'string' }, example: parts[0]?.example }
      const union = { json: { anyOf: parts.map(part => part.json) }, example: parts[0]?.example }
      return namedAs(alias ?? type.aliasSymbol, () => union)
    }
    if (type.isStringLiteral()) return { json: { const: type.value }, example: type.value }
    if (type.isNumberLiteral()) return { json: { const: type.value }, example: type.value }
    if (type.flags & ts.TypeFlags.BooleanLiteral) {
      const value = checker.typeToString(type) === 'true'
      return { json: { const: value }, example: value }
    }
    if (type.flags & ts.TypeFlags.Null) return { json: { const: null }, example: null }
    const limits = keywordsOf(docOf(alias))
    if (type.flags & ts.TypeFlags.StringLike)
      return { json: { type: 'string', ...limits }, example: exampleOf(name, limits.format) }
    if (type.flags & ts.TypeFlags.NumberLike) return { json: { type: 'integer', ...limits }, example: 3 }
    if (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) return { json: {}, example: 'value' }
    if (checker.isArrayType(type) || checker.isTupleType(type)) {
      const [element] = checker.getTypeArguments(type as ts.TypeReference)
      if (element === undefined) throw new Error(`${name} is a list of nothing`)
      const { json, example } = schemaOf(element, elementNode(node), name)
      return { json: { type: 'array', items: json }, example: [example] }
    }
    return namedAs([alias, type.aliasSymbol, type.symbol].find(isNamed), () => objectOf(type))
  }

  const isNamed = (symbol: ts.Symbol | undefined): boolean => docOf(symbol).tags.some(([tag]) => tag === 'schema')

  /** Returns the members of a union that has a name, as they are written. */
  function membersOf(alias: ts.Symbol | undefined): ts.TypeNode[] {
    const declared = alias?.declarations?.find(ts.isTypeAliasDeclaration)?.type
    return declared !== undefined && ts.isUnionTypeNode(declared) ? [...declared.types] : []
  }

  /** Puts a schema whose type has the tag `@schema` among the named ones. */
  function namedAs(symbol: ts.Symbol | undefined, make: () => { json: JsonSchema; example: unknown }) {
    const { tags } = docOf(symbol)
    const name = tags.find(([tag]) => tag === 'schema')?.[1]
    if (name === undefined) return make()
    // Made in any case: it names the types of its fields.
    const made = make()
    const { json, example } = name === 'Policy' ? policySchema() : made
    const had = schemas.get(name)
    if (had !== undefined && JSON.stringify(had) !== JSON.stringify(json))
      throw new Error(`Two schemas are named ${name}`)
    schemas.set(name, json)
    return { json: { $ref: `#/components/schemas/${name}` }, example }
  }

  /** The texts of a union in the order in which they are written. The compiler does not keep it. */
  function orderedTexts(type: ts.UnionType, node: ts.TypeNode | undefined): string[] {
    const found = (node === undefined ? [] : textsIn(node)).concat(
      type.aliasSymbol?.declarations?.flatMap(each => (ts.isTypeAliasDeclaration(each) ? textsIn(each.type) : [])) ?? []
    )
    const all = type.types.map(each => (each as ts.StringLiteralType).value)
    return [...new Set([...found.filter(each => all.includes(each)), ...all])]
  }

  function textsIn(node: ts.TypeNode): string[] {
    if (ts.isParenthesizedTypeNode(node) || ts.isTypeOperatorNode(node)) return textsIn(node.type)
    if (ts.isUnionTypeNode(node)) return node.types.flatMap(textsIn)
    if (ts.isArrayTypeNode(node)) return textsIn(node.elementType)
    if (ts.isLiteralTypeNode(node)) return ts.isStringLiteral(node.literal) ? [node.literal.text] : []
    if (ts.isTypeReferenceNode(node)) {
      const declared = aliasOf(node)?.declarations?.[0]
      return declared !== undefined && ts.isTypeAliasDeclaration(declared) ? textsIn(declared.type) : []
    }
    // `(typeof names)[number]`
    if (ts.isIndexedAccessTypeNode(node)) {
      const list = checker.getTypeFromTypeNode(node.objectType)
      if (!checker.isTupleType(list)) return []
      return checker
        .getTypeArguments(list as ts.TypeReference)
        .flatMap(each => (each.isStringLiteral() ? [each.value] : []))
    }
    return []
  }

  function objectOf(type: ts.Type): { json: JsonSchema; example: unknown } {
    const values = checker.getIndexTypeOfType(type, ts.IndexKind.String)
    if (values !== undefined)
      return { json: { type: 'object', additionalProperties: schemaOf(values).json }, example: {} }
    const fields = checker.getPropertiesOfType(type)
    const required = fields.filter(each => !(each.flags & ts.SymbolFlags.Optional))
    const made = new Map(fields.map(each => [each.name, fieldOf(each)]))
    const json: JsonSchema = {
      type: 'object',
      properties: Object.fromEntries([...made].map(([name, { json }]) => [name, json])),
      ...(required.length > 0 && { required: required.map(({ name }) => name) }),
      additionalProperties: false
    }
    return { json, example: Object.fromEntries(required.map(({ name }) => [name, made.get(name)?.example])) }
  }

  /** Returns the schema of a field, with the description and the limits of its comment. */
  function fieldOf(symbol: ts.Symbol): { json: JsonSchema; example: unknown } {
    const doc = docOf(symbol)
    const declared = symbol.declarations?.find(ts.isPropertySignature)
    const { json, example } = schemaOf(typeOf(symbol), declared?.type, symbol.name)
    const limits = keywordsOf(doc)
    const limited = limitedBy(json, doc.tags.some(([tag]) => tag === 'number') ? { ...limits, type: 'number' } : limits)
    const isHidden = doc.tags.some(([tag]) => tag === 'hidden')
    return { json: { ...(isHidden ? nullable(limited) : limited), ...described(doc) }, example }
  }

  /** Adds limits to a schema, or to that of its items. */
  function limitedBy(json: JsonSchema, limits: JsonSchema): JsonSchema {
    const { type, ...others } = limits
    const { minItems, maxItems, ...rest } = others
    if (json.type === 'array' && json.items !== undefined)
      return {
        ...json,
        items: limitedBy(json.items, type === undefined ? rest : { ...rest, type }),
        ...(minItems !== undefined && { minItems }),
        ...(maxItems !== undefined && { maxItems })
      }
    const isNullable = Array.isArray(json.type)
    return { ...json, ...others, ...(type !== undefined && { type: isNullable ? [type as string, 'null'] : type }) }
  }

  function described({ text }: Doc): JsonSchema {
    return text === '' ? {} : { description: withoutPeriod(text.replaceAll('\n', ' ')) }
  }

  const fieldsAt = (node: ts.Node): ts.Symbol[] => checker.getPropertiesOfType(checker.getTypeAtLocation(node))
  const partsOf = (symbol: ts.Symbol): ts.Symbol[] => checker.getPropertiesOfType(typeOf(symbol))

  function parametersOf(symbol: ts.Symbol | undefined, place?: 'query' | 'header'): Parameter[] {
    if (symbol === undefined) return []
    return partsOf(symbol).map(each => {
      const { description = '', ...schema } = fieldOf(each).json
      const isRequired = !(each.flags & ts.SymbolFlags.Optional)
      return {
        ...(place && { in: place }),
        name: each.name,
        description,
        schema,
        ...(isRequired && { required: true })
      }
    })
  }

  /** Loads the readers of a body from the built module that exports them. */
  async function bodyOf(symbol: ts.Symbol): Promise<Pick<MappedRoute, 'body' | 'jsonBody'>> {
    const node = symbol.declarations?.find(ts.isPropertySignature)?.type
    if (node === undefined || !ts.isTypeQueryNode(node)) {
      const { json, example } = fieldOf(symbol)
      return { jsonBody: { json, example } }
    }
    let readers = checker.getSymbolAtLocation(node.exprName)
    if (readers !== undefined && readers.flags & ts.SymbolFlags.Alias) readers = checker.getAliasedSymbol(readers)
    const file = readers?.valueDeclaration?.getSourceFile().fileName
    if (readers === undefined || file === undefined) throw new Error(`${node.getText()} is not declared`)
    const built = join(top, 'dist', relative(top, dirname(file)), `${file.split('/').at(-1)?.slice(0, -3)}.js`)
    const loaded = (await import(pathToFileURL(built).href)) as Record<string, Shape>
    const shape = loaded[readers.name]
    if (shape === undefined) throw new Error(`${built} does not export ${readers.name}`)
    const texts = partsOf(symbol).map(each => [each.name, described(docOf(each)).description ?? ''])
    return { body: { shape, descriptions: Object.fromEntries(texts.filter(([, text]) => text !== '')) } }
  }

  function answerOf(symbol: ts.Symbol): Answer {
    const { text, tags } = docOf(symbol)
    const type = typeOf(symbol)
    const headers = tags.filter(([tag]) => tag === 'header').map(([, text]) => text.split(/ (.*)/s).slice(0, 2))
    const example = tags.find(([tag]) => tag === 'example')?.[1]
    const shared = { what: withoutPeriod(text), headers: Object.fromEntries(headers) as Record<string, string> }
    const shown = example === undefined ? {} : { example: JSON.parse(example) as unknown }
    const media = symbol.name === 'media' ? type : type.getProperty('media')
    if (type.flags & ts.TypeFlags.Null) return shared
    if (media !== undefined) {
      const mediaType = 'flags' in media && 'getProperties' in media ? (media as ts.Type) : typeOf(media as ts.Symbol)
      return { ...shared, media: (mediaType as ts.StringLiteralType).value, ...shown }
    }
    const { json, example: made } = schemaOf(type, symbol.declarations?.find(ts.isPropertySignature)?.type)
    return { ...shared, json, example: made }
  }

  async function route(symbol: ts.Symbol): Promise<MappedRoute> {
    const { text, tags } = docOf(symbol)
    const [summary = '', ...description] = text.split('\n')
    const part = new Map(partsOf(symbol).map(each => [each.name, each]))
    const body = part.get('body')
    const asked = part.get('text')
    const also = part.get('also')
    const answers = (also === undefined ? [] : partsOf(also)).map(each => [each.name, answerOf(each)])
    const main = part.get('answer') ?? part.get('media')
    const codes = tags.find(([tag]) => tag === 'errors')?.[1].split(' ') ?? []
    const doc = docOf(asked)
    return {
      summary: withoutPeriod(summary),
      ...(description.length > 0 && { description: description.join('\n\n') }),
      parameters: [...parametersOf(part.get('query'), 'query'), ...parametersOf(part.get('headers'), 'header')],
      ...(body !== undefined && (await bodyOf(body))),
      isBodyOptional: body !== undefined && (body.flags & ts.SymbolFlags.Optional) !== 0,
      ...(asked !== undefined && {
        text: {
          description: withoutPeriod(doc.text),
          media: doc.tags.find(([tag]) => tag === 'media')?.[1] ?? '',
          example: JSON.parse(doc.tags.find(([tag]) => tag === 'example')?.[1] ?? '""') as string
        }
      }),
      ...(part.has('form') && { form: parametersOf(part.get('form')) }),
      answers: { ...(main !== undefined && { 200: answerOf(main) }), ...Object.fromEntries(answers) },
      errors: codes.flatMap(code => (code.startsWith('*') ? (errorGroups[code.slice(1)] ?? [code]) : [code]))
    }
  }

  return { schemas, fieldsAt, route }
}

/** The schema of a policy: its keys have readers, which say what they accept. */
function policySchema(): { json: JsonSchema; example: unknown } {
  const properties = Object.entries(policyKeys).map(([name, { read, what }]) => [
    name,
    { ...read.schema, description: what }
  ])
  return {
    json: { type: 'object', properties: Object.fromEntries(properties), additionalProperties: false },
    example: { drift: 'refuse' }
  }
}

function elementNode(node: ts.TypeNode | undefined): ts.TypeNode | undefined {
  if (node === undefined) return undefined
  if (ts.isParenthesizedTypeNode(node) || ts.isTypeOperatorNode(node)) return elementNode(node.type)
  if (ts.isArrayTypeNode(node)) return node.elementType
  return ts.isTypeReferenceNode(node) ? node.typeArguments?.[0] : undefined
}

function nullable(json: JsonSchema): JsonSchema {
  const isPlain = typeof json.type === 'string' && json.enum === undefined
  return isPlain ? { ...json, type: [json.type as string, 'null'] } : { anyOf: [json, { type: 'null' }] }
}

const plain = (text: string): string => text.replace(/\s+/g, ' ').trim()
const withoutPeriod = (text: string): string => text.replace(/\.$/, '')

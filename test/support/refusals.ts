import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

/*
 * Finds every `new Refusal(kind, code, sentence)` of lib in the syntax tree, and the texts that its code and its
 * sentence can be. A text that is a parameter of the function around it is looked up at the calls of that function, and
 * so on. Text that only exists at run time is unknown, and is not reported.
 */

const top = fileURLToPath(new URL('../../../', import.meta.url))

/** A text that an expression can produce. */
export interface Text {
  /** The characters before the first value and after the last one; null if a value is there. */
  head: string | null
  tail: string | null
  /** Whether the text contains no value. */
  isWhole: boolean
  /** The path below the top of the repository. */
  path: string
  line: number
}

/** One construction of a refusal. */
export interface FoundRefusal {
  path: string
  line: number
  codes: Text[]
  sentences: Text[]
}

let found: readonly FoundRefusal[] | undefined

/** Returns the refusals in the sources below `lib`, in order of their files. Several files of a group ask for them. */
export function findRefusals(): readonly FoundRefusal[] {
  return (found ??= readRefusals())
}

function readRefusals(): FoundRefusal[] {
  const reading = readProgram()
  return reading.constructions.map(node => {
    const [, code, sentence] = node.arguments ?? []
    return {
      ...placeOf(node),
      codes: code === undefined ? [] : textsOf(code, reading),
      sentences: sentence === undefined ? [] : textsOf(sentence, reading)
    }
  })
}

interface Reading {
  checker: ts.TypeChecker
  constructions: ts.NewExpression[]
  /** All calls, by the last word of the callee. */
  calls: Map<string, ts.CallExpression[]>
}

function readProgram(): Reading {
  const paths = readdirSync(join(top, 'lib'), { recursive: true, encoding: 'utf8' }).filter(path =>
    path.endsWith('.ts')
  )
  const program = ts.createProgram(
    paths.sort().map(path => join(top, 'lib', path)),
    // Names are enough; reading the types of the standard library would take seconds.
    { noLib: true, types: [], module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022 }
  )
  const reading: Reading = { checker: program.getTypeChecker(), constructions: [], calls: new Map() }
  const visit = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && node.expression.getText() === 'Refusal') reading.constructions.push(node)
    if (ts.isCallExpression(node)) {
      const name = lastWord(node.expression)
      reading.calls.set(name, [...(reading.calls.get(name) ?? []), node])
    }
    ts.forEachChild(node, visit)
  }
  for (const file of program.getSourceFiles()) visit(file)
  return reading
}

function lastWord(node: ts.Node): string {
  return /[\w$#]*$/.exec(ts.isPropertyAccessExpression(node) ? node.name.text : node.getText())?.[0] ?? ''
}

function symbolOf(node: ts.Node, checker: ts.TypeChecker): ts.Symbol | undefined {
  const symbol = checker.getSymbolAtLocation(node)
  return symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}

/** Returns every text that an expression can produce; `seen` ends cycles. */
function textsOf(node: ts.Expression, reading: Reading, seen: ReadonlySet<ts.Node> = new Set()): Text[] {
  if (seen.has(node)) return []
  const inner = (part: ts.Expression): Text[] => textsOf(part, reading, new Set([...seen, node]))
  const place = placeOf(node)
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node))
    return [{ head: node.text, tail: node.text, isWhole: true, ...place }]
  if (ts.isParenthesizedExpression(node)) return inner(node.expression)
  if (ts.isConditionalExpression(node)) return [...inner(node.whenTrue), ...inner(node.whenFalse)]
  if (ts.isTemplateExpression(node)) {
    const last = node.templateSpans.at(-1) as ts.TemplateSpan
    const tail = last.literal.text
    const head = { head: node.head.text || null, tail: tail || null, isWhole: false, ...place }
    return tail === '' ? [head, ...endsOf(inner(last.expression))] : [head]
  }
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const heads = inner(node.left).map(text => ({ ...text, tail: null, isWhole: false }))
    return [...heads, ...endsOf(inner(node.right))]
  }
  const values = ts.isIdentifier(node) ? valuesOf(node, reading) : ts.isCallExpression(node) ? given(node, reading) : []
  return values.length === 0 ? [{ head: null, tail: null, isWhole: false, ...place }] : values.flatMap(inner)
}

/** Returns the same texts as the end of a longer one. */
function endsOf(texts: Text[]): Text[] {
  return texts.map(text => ({ ...text, head: null, isWhole: false }))
}

/** Returns what a name can stand for: the value of a constant, or the arguments for a parameter. */
function valuesOf(name: ts.Identifier, reading: Reading): ts.Expression[] {
  const declaration = symbolOf(name, reading.checker)?.valueDeclaration
  if (declaration === undefined) return []
  if (ts.isVariableDeclaration(declaration))
    return declaration.initializer === undefined ? [] : [declaration.initializer]
  if (ts.isParameter(declaration)) return argumentsFor(declaration, reading)
  if (!ts.isBindingElement(declaration) || !ts.isParameter(declaration.parent.parent)) return []
  const key = (declaration.propertyName ?? declaration.name).getText()
  return argumentsFor(declaration.parent.parent, reading).flatMap(value => {
    if (!ts.isObjectLiteralExpression(value)) return []
    const property = value.properties.find(property => property.name?.getText() === key)
    if (property === undefined) return []
    if (ts.isShorthandPropertyAssignment(property)) return [property.name]
    return ts.isPropertyAssignment(property) ? [property.initializer] : []
  })
}

/** Returns the arguments that calls pass for a parameter. */
function argumentsFor(parameter: ts.ParameterDeclaration, { checker, calls }: Reading): ts.Expression[] {
  const owner = parameter.parent
  const name = ts.isVariableDeclaration(owner.parent) ? owner.parent.name : owner.name
  const called = name && symbolOf(name, checker)
  if (name === undefined || called === undefined) return []
  const index = owner.parameters.indexOf(parameter)
  return (calls.get(lastWord(name)) ?? [])
    .filter(call => symbolOf(call.expression, checker) === called)
    .flatMap(call => call.arguments[index] ?? [])
}

/** Returns what a function of lib returns. */
function given(call: ts.CallExpression, { checker }: Reading): ts.Expression[] {
  const declared = symbolOf(call.expression, checker)?.valueDeclaration
  const made = declared && ts.isVariableDeclaration(declared) ? declared.initializer : declared
  if (made === undefined || !(ts.isFunctionDeclaration(made) || ts.isArrowFunction(made))) return []
  if (made.body !== undefined && !ts.isBlock(made.body)) return [made.body]
  const found: ts.Expression[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isReturnStatement(node) && node.expression !== undefined) found.push(node.expression)
    else if (!ts.isFunctionLike(node)) ts.forEachChild(node, visit)
  }
  if (made.body !== undefined) visit(made.body)
  return found
}

function placeOf(node: ts.Node): { path: string; line: number } {
  const file = node.getSourceFile()
  const { line } = file.getLineAndCharacterOfPosition(node.getStart())
  return { path: file.fileName.slice(top.length), line: line + 1 }
}

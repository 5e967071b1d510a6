"""What developers and models type every day, written down from work and not from the guard. It needs TOOLS, and nothing is forbidden."""

TOOLS = frozenset(
    """
    ls cat head tail wc grep egrep column hostname history paste expand printenv nproc split truncate make rg find fd sort
    uniq cut tr sed awk xargs tee diff patch file stat du df ps top free uname whoami id which echo printf test [ cd pwd read
    true false date sleep mkdir rmdir rm touch cp mv ln chmod basename dirname realpath readlink mktemp tar gzip gunzip zip
    unzip curl wget git gh python python3 pip pip3 pytest ruff mypy uv poetry node npm npx yarn pnpm tsc cmake cargo go rustc
    java mvn gradle docker docker-compose kubectl helm terraform jq yq env export kill pkill lsof netstat ss ping dig ssh scp
    rsync seq bc md5sum sha256sum base64 xxd od timeout time watch nohup tree less bash sh source psql sqlite3 redis-cli
    mysql set unset type command bat local declare mapfile exit trap wait ./gradlew ./configure ./run.sh ./manage.py
    ./scripts/build.sh .venv/bin/python .venv/bin/pytest
    """.split()
)  # fmt: skip

_LOOKING = [
    "ls", "ls -la", "ls -lah src/", "ls -lt | head -20", "pwd", "cat package.json", "cat -n src/main.py", "head -100 README.md",
            "tail -n 50 server.log",
    "tail -f logs/app.log", "wc -l src/*.py", "find . -type f | wc -l", "find . -name '*.ts' -not -path '*/node_modules/*'",
            "tree -L 2 -I node_modules",
    "find src -name '*.py' -exec grep -l 'import os' {} \\;", "find . -type f -mtime -1 | sort", "du -sh * | sort -h", "df -h",
            "file build/app", "stat setup.py",
    "grep -rn 'TODO' --include='*.py' .", "grep -n 'def ' src/app.py | head -40", "grep -rl foo src | xargs sed -i 's/foo/bar/g'",
            "rg -n 'class \\w+' src",
    "rg --files | rg test", "rg -l 'useState' --type ts", "grep -E '^(import|from) ' -h src/*.py | sort | uniq -c | sort -rn | head",
            "cat src/a.py | grep -v '^#' | head",
    "sed -n '120,180p' src/server.py", "sed -n '/class Foo/,/^class/p' src/foo.py", "awk 'NR>=10 && NR<=20' file.txt",
            "awk -F, '{print $2}' data.csv | sort -u",
    "awk '{sum += $3} END {print sum/NR}' times.txt", "cut -d, -f1,3 data.csv | head -5", "column -t -s, data.csv | less",
            "diff -u a.txt b.txt", "diff <(sort a) <(sort b) || true",
    "jq '.dependencies | keys' package.json", "jq -r '.items[].name' out.json", "cat data.json | python3 -m json.tool | head -50",
            "xxd image.png | head -3", "ps aux | grep node",
    "ps -ef | grep -v grep | grep python", "lsof -i :8080", "which python3 && python3 --version", "uname -a && cat /etc/os-release",
            "env | grep -i path", "echo $PATH | tr ':' '\\n'",
    "printenv HOME", "id -un", "date '+%Y-%m-%d %H:%M:%S'", "md5sum dist/*", "history | tail -5", "type -a python",
            "command -v docker >/dev/null 2>&1 && echo yes || echo no",
]  # fmt: skip
_CHANGING = [
    "mkdir -p src/{components,hooks,utils}", "touch src/__init__.py", "cp .env.example .env", "mv old.py new.py",
            "rm -rf node_modules package-lock.json && npm install",
    "rm -f *.pyc", "find . -name __pycache__ -type d -exec rm -rf {} +", "find . -name '*.orig' -delete",
            "chmod +x scripts/deploy.sh", "ln -sf ../shared/config.yml config.yml",
    "sed -i 's/localhost/127.0.0.1/g' config/*.yml", "sed -i '/debug/d' settings.py", "sed -i.bak -e '1i # header' main.py",
            "echo 'node_modules/' >> .gitignore",
    "echo \"export FOO=bar\" >> ~/.profile", "printf 'a\\nb\\nc\\n' > list.txt",
            "cat > app.py << 'EOF'\nfrom flask import Flask\napp = Flask(__name__)\n\n@app.route('/')\ndef index():\n    return 'hi'\nEOF",
    "cat <<EOF > .env\nPORT=3000\nHOST=$(hostname)\nEOF",
            "cat > run.sh <<'EOF'\n#!/usr/bin/env bash\nset -euo pipefail\nrm -rf \"$1\"\nEOF\nchmod +x run.sh",
            "tee -a notes.md <<< '- done'",
    "python3 - <<'PY'\nimport json\nprint(json.dumps({'a': 1}))\nPY", "tar -czf backup.tar.gz --exclude=node_modules .",
            "tar xzf release.tar.gz -C /tmp/release --strip-components=1", "unzip -o archive.zip -d out",
    "gzip -k big.log", "curl -fsSL https://example.com/data.json -o data.json",
            "curl -s -X POST -H 'Content-Type: application/json' -d '{\"a\": 1}' http://localhost:3000/api | jq .",
    "curl -s -o /dev/null -w '%{http_code}\\n' http://localhost:8000/health", "wget -q https://example.com/file.tar.gz",
            "base64 -d <<< 'aGk=' > out.bin", "split -l 1000 big.csv part_",
    "sort -u words.txt -o words.txt", "patch -p1 < fix.patch", "ls *.jpg | while read -r f; do mv \"$f\" \"${f%.jpg}.jpeg\"; done",
            "for f in *.txt; do cp \"$f\" \"backup/${f}.bak\"; done",
    "for i in $(seq 1 5); do echo \"line $i\" >> out.txt; done", "for d in */; do (cd \"$d\" && git pull); done",
            "mkdir -p out && cd out && cmake .. && make -j$(nproc)", "truncate -s 0 app.log",
    "test -d build || mkdir build", "[ -f .env ] && cat .env || echo 'no env'", "cp -r templates/. out/",
            "rsync -av --delete src/ dest/", "> app.log", "echo '' > empty.txt; ls -l empty.txt",
    "awk '{print $1}' access.log | sort | uniq -c | sort -nr | head -10", "xargs -n1 -P4 curl -sO < urls.txt",
            "cat urls.txt | xargs -I{} curl -s {}", "find . -name '*.png' -print0 | xargs -0 du -ch | tail -1",
]  # fmt: skip
_BUILDING = [
    "npm install", "npm ci && npm run build", "npm run lint -- --fix", "npm test 2>&1 | tail -40", "npx tsc --noEmit",
            "npx prettier --check 'src/**/*.ts'", "NODE_ENV=production npm run build", "yarn add -D jest",
    "pip install -r requirements.txt", "pip install -e '.[dev]' -q",
            "python -m venv .venv && source .venv/bin/activate && pip install -U pip", "python3 -m http.server 8000 &",
            "pytest -x -q tests/test_api.py::test_login",
    "pytest -k 'not slow' --maxfail=1 2>&1 | tee test.log", "python -m pytest --cov=src --cov-report=term-missing",
            ".venv/bin/python -m mypy src", "ruff check . && ruff format --check .", "python manage.py migrate --noinput",
    "python -c \"import sys; print(sys.version)\"", "python3 -c 'print(sum(range(10)))'", "uv run pytest -q",
            "poetry run python main.py --port 8080", "PYTHONPATH=src python -m app",
            "go build ./... && go test ./... -run TestFoo -v", "go mod tidy",
    "cargo build --release 2>&1 | grep -E 'warning|error' | head", "cargo test -- --nocapture", "RUST_BACKTRACE=1 cargo run",
            "make clean all", "make -C build -j8 VERBOSE=1", "./configure --prefix=/usr/local && make", "mvn -q -DskipTests package",
            "./gradlew assembleDebug",
    "docker build -t app:latest .", "docker run --rm -it -v \"$PWD\":/app -w /app node:20 npm test",
            "docker compose up -d && docker compose logs -f web", "docker ps -a --format '{{.Names}}'",
            "docker exec -it db psql -U postgres -c 'select 1'",
    "kubectl get pods -n default -o wide", "kubectl logs deploy/web --tail=100", "terraform plan -out=tf.plan",
            "sqlite3 app.db '.tables'", "psql \"$DATABASE_URL\" -c 'SELECT count(*) FROM users;'", "redis-cli ping",
            "java -jar target/app.jar --server.port=9000",
    "timeout 30 npm start || true", "nohup python server.py > server.log 2>&1 &",
            "(npm run dev &) ; sleep 3; curl -s localhost:3000 | head", "kill $(lsof -t -i:3000)",
            "pkill -f 'node server.js' || true", "time make test", "watch -n 2 ls", "bash scripts/setup.sh",
            "./scripts/build.sh --fast",
    "cd frontend && npm run build && cd ..", "export API_URL=http://localhost:8000; npm start", "source .env && python app.py",
            "set -a; source .env; set +a; npm start", "gh pr create --title 'Fix' --body 'text'", "ssh user@host 'uptime'",
            "scp build.zip user@host:/tmp/",
]  # fmt: skip
_GIT = [
    "git status --short", "git log --oneline --graph -15", "git diff --stat HEAD~3", "git diff HEAD -- src/app.py | head -100",
            "git add -A && git commit -m \"Fix: handle empty input\"", "git commit -am 'wip' && git push origin HEAD",
    "git checkout -b feature/login", "git checkout main && git pull --rebase", "git stash && git checkout main && git stash pop",
            "git branch -a | grep feature", "git show HEAD:src/app.py | head", "git blame -L 10,20 src/app.py",
            "git log --author='Ann' --since='2 weeks ago' --pretty=format:'%h %s'",
    "git rev-parse --abbrev-ref HEAD", "git clone --depth 1 https://example.com/a/b.git", "git ls-files | xargs wc -l | tail -1",
            "git grep -n 'deprecated' -- '*.py'", "git reset --soft HEAD~1", "git restore --staged .",
            "git merge --no-ff feature/login", "git tag -a v1.2.0 -m 'v1.2.0' && git push --tags",
    "git remote -v", "git config user.email 'a@example.com'", "git rebase -i HEAD~3", "git cherry-pick abc123",
            "git diff --name-only main...HEAD | grep '\\.py$' | xargs -r ruff check", "git apply fix.diff",
            "git log -S'function foo' --oneline", "git worktree add ../wt main",
            "git commit -m \"$(cat <<'EOF'\nAdd a thing\n\nIt does (much) more.\nEOF\n)\"",
]  # fmt: skip
_SCRIPTING = [
    "x=5; y=$((x + 3)); echo $y", "count=$(ls | wc -l); echo \"There are $count files\"", "for i in {1..3}; do echo \"$i\"; done",
            "i=0; while [ $i -lt 5 ]; do echo $i; i=$((i+1)); done", "if [ -d src ]; then echo yes; else echo no; fi",
            "[[ \"$OSTYPE\" == linux* ]] && echo linux",
    "while IFS=, read -r name age; do echo \"$name is $age\"; done < people.csv", "set -euo pipefail\ncd project\nnpm ci\nnpm test",
            "greet() { echo \"Hello, $1\"; }; greet World",
            "files=(*.py); echo \"${#files[@]} files\"; for f in \"${files[@]}\"; do wc -l \"$f\"; done",
            "case \"$1\" in start) echo start;; stop) echo stop;; esac",
    "trap 'rm -f /tmp/lock' EXIT; touch /tmp/lock; sleep 1", "name=${1:-world}; echo \"hi ${name^}\"",
            "until curl -sf http://localhost:8080/health; do sleep 1; done",
            "for n in 1 2 3; do echo $((n * n)); done | paste -sd+ | bc", "for ((i=0; i<3; i++)); do echo $i; done",
            "readarray -t lines < input.txt; echo \"${lines[0]}\"",
    "tmp=$(mktemp -d) && cd \"$tmp\" && git init -q && cd - && rm -rf \"$tmp\"",
            "start=$(date +%s); make; echo $(( $(date +%s) - start ))s", "echo \"${PWD##*/}\"",
            "version=$(jq -r .version package.json); echo \"v$version\"", "[ $? -eq 0 ] && echo ok",
            "ls missing 2>/dev/null || echo 'not there'", "{ echo a; echo b; } > both.txt 2>&1",
            "! grep -q secret app.py && echo clean", "seq 10 | awk '$1 % 2 == 0'",
    "echo $(( RANDOM % 10 ))", "a=1 b=2; echo \"$a$b\"", "eval \"$(ssh-agent -s)\"", "printf '%05d\\n' 42",
            "echo -e 'a\\tb' | expand", "sleep 2 && echo done &\nwait", "for f in $(git diff --name-only); do echo \"$f\"; done",
            "test \"$(cat VERSION)\" = 1.0 && echo same", "select=1; [ \"$select\" ] && echo $select",
            "exec 3< input.txt; read -r line <&3; echo \"$line\"",
]  # fmt: skip
EVERYDAY = [*_LOOKING, *_CHANGING, *_BUILDING, *_GIT, *_SCRIPTING]
